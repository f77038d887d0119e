import assert from "node:assert/strict";
import { test } from "node:test";

import { besideToken, cutNear, cuts, Heights, pieceOfToken, piecesBetween, tokenAt } from "../../src/prl/dashboard/static/js/pages/viewer/chunks.js";
import { blocks } from "../../src/prl/dashboard/static/js/pages/viewer/blocks.js";
import { drawing, extent, secondsOf, ticks } from "../../src/prl/dashboard/static/js/pages/viewer/lanes.js";
import { nextMarked } from "../../src/prl/dashboard/static/js/pages/viewer/marked.js";
import { boundsOf, classOf, heightOf, legendOf, OVERLAYS, overlayOf, short, shownOverlay, valueText } from "../../src/prl/dashboard/static/js/pages/viewer/overlays.js";
import { cutAt, findQuote, quotedTokens } from "../../src/prl/dashboard/static/js/pages/viewer/quotes.js";
import { Tokens } from "../../src/prl/dashboard/static/js/pages/viewer/tokens.js";
import { messageOfNode, messagesOf, piecesOf, prettyArguments } from "../../src/prl/dashboard/static/js/pages/viewer/transcript.js";
import { oneLine, tokenName, visibleText, visibleToken } from "../../src/prl/dashboard/static/js/pages/viewer/visible.js";

const KL = overlayOf("mismatch_kl");

test("the class of a mismatch KL on the fixed scale", () => {
  const of = (value) => classOf(KL, KL.bounds, value);
  assert.deepEqual([0, 9e-5, 1e-4, 0.0299, 0.03, 0.99, 2.32].map(of), ["k0", "k0", "k1", "k5", "k6", "k7", "k8"]);
  assert.deepEqual([null, undefined, NaN].map(of), ["", "", ""]);
  assert.equal(of(Infinity), "k8");
});

test("the classes of the other overlays", () => {
  const of = (id, value) => classOf(overlayOf(id), overlayOf(id).bounds, value);
  assert.deepEqual([-2, -0.6, -0.05, 0, 0.05, 0.625, 1].map((value) => of("advantage", value)), ["n4", "n3", "n1", "z0", "p1", "p3", "p4"]);
  assert.deepEqual([0, -0.02, -3.4, -9].map((value) => of("trainer_logprob", value)), ["e0", "e1", "e7", "e8"]);
  assert.deepEqual([0, 0.5, 3].map((value) => of("entropy", value)), ["e0", "e4", "e8"]);
  assert.deepEqual([0, 1, -1, 2, null].map((value) => of("stable", value)), ["m-in", "m-hi", "m-lo", "m-un", ""]);
  assert.deepEqual([0, 1].map((value) => of("loss_mask", value)), ["m-out", "m-in"]);
  assert.equal(of("none", 1), "");
});

test("a scale of this trace spreads nine classes over its values", () => {
  const log = boundsOf(KL, "trace", { min: 1e-9, max: 0.1 });
  assert.equal(log.length, 8);
  assert.equal(classOf(KL, log, 0.1), "k8");
  assert.equal(classOf(KL, log, 1e-9), "k0");
  assert.ok(log.every((bound, index) => index === 0 || bound > log[index - 1]));
  const entropy = overlayOf("entropy");
  assert.equal(boundsOf(entropy, "trace", { min: 0, max: 0.9 })[0].toFixed(6), "0.100000");
  assert.deepEqual(boundsOf(overlayOf("advantage"), "trace", { min: -0.5, max: 2 }), [0.5, 1, 1.5]);
  assert.equal(boundsOf(KL, "trace", { min: 0, max: 0 }), KL.bounds);
  assert.equal(boundsOf(KL, "trace", { min: null, max: null }), KL.bounds);
});

test("bars of the small map grow with the value and stay inside", () => {
  const heights = [0, 1e-4, 0.001, 0.05, 0.5, 40, Infinity].map((value) => heightOf(KL, KL.bounds, value));
  assert.ok(heights.every((height, index) => height > 0 && height <= 1 && (index === 0 || height >= heights[index - 1])), String(heights));
  assert.equal(heightOf(KL, KL.bounds, null), 0);
});

test("a legend names the edges of its classes", () => {
  assert.deepEqual(legendOf(KL, KL.bounds).map(({ label }) => label), ["", "1e-4", "3e-4", "1e-3", "3e-3", "0.01", "0.03", "0.1", "1"]);
  const advantage = overlayOf("advantage");
  assert.deepEqual(legendOf(advantage, advantage.bounds).map(({ name }) => name), ["n4", "n3", "n2", "n1", "z0", "p1", "p2", "p3", "p4"]);
  for (const overlay of OVERLAYS.slice(1)) assert.ok(legendOf(overlay, overlay.bounds).length >= 2);
  assert.equal(short(-0.00034), "\u22123e-4");
  assert.equal(valueText("advantage", 0.375), "+0.375");
  assert.equal(valueText("mismatch_kl", null), "n/a");
});

test("an overlay that a trace lacks is not shown; a token asks for the first there is", () => {
  assert.equal(shownOverlay("entropy", { entropy: "no trainer stream" }, false).id, "none");
  assert.equal(shownOverlay("", { mismatch_kl: "not recorded" }, true).id, "trainer_logprob");
  assert.equal(shownOverlay("none", {}, true).id, "none");
  assert.equal(shownOverlay("", {}, false).id, "none");
  assert.equal(shownOverlay("hasOwnProperty", {}, false).id, "none");
});

test("what a model wrote cannot turn the line or hide", () => {
  assert.equal(visibleText("a\u202eb\u0007\u007f\u200b\ufeff"), "a\u2329U+202E\u232ab\u2407\u2421\u2329U+200B\u232a\u2329U+FEFF\u232a");
  assert.equal(visibleText("x\u{e0041}\ud800y"), "x\u2329U+E0041\u232a\ufffdy");
  assert.equal(visibleText("\ud83d\udc4d\u200d\u00e9"), "\ud83d\udc4d\u200d\u00e9");
  assert.equal(visibleText("line\r\nline\tend"), "line\nline\tend");
  assert.ok(visibleText(`e${"\u0301".repeat(500)}`).length < 10);
  assert.equal(visibleToken("a\n\tb"), "a\u23ce\n\u21e5\tb");
  assert.equal(tokenName("  per"), "\u2423\u2423per");
  assert.equal(tokenName(""), "empty");
  assert.equal(oneLine("  a \n b ", 10), "a b");
});

test("a quote is found whatever its white space, and by what stands around it", () => {
  assert.deepEqual(findQuote("so  he\ngave  away", { quote: "he gave" }), [4, 11]);
  assert.deepEqual(findQuote("ten, ten, ten", { quote: "ten", prefix: "ten, ", suffix: "," }), [5, 8]);
  assert.deepEqual(findQuote("ten", { quote: "ten", prefix: "nowhere" }), [0, 3]);
  assert.equal(findQuote("ten", { quote: "nine" }), null);
  assert.equal(findQuote("ten", { quote: " " }), null);
  assert.deepEqual(cutAt("abcdef", [[1, 3, "why"], [2, 4]]).map(({ text, marked }) => [text, marked]), [["a", false], ["bc", true], ["d", true], ["ef", false]]);
  assert.deepEqual(quotedTokens(["He", " gave", " away", "."], { quote: "gave away" }), [1, 3]);
  assert.equal(quotedTokens(["He"], { quote: "gave" }), null);
});

test("windows of tokens are loaded once, when they are needed", async () => {
  const asked = [];
  let changes = 0;
  const load = async (start, limit) => {
    asked.push(start);
    if (start === 20 && asked.filter((one) => one === 20).length === 1) throw new Error("gone");
    const texts = Array.from({ length: Math.min(limit, 25 - start) }, (_, index) => `t${start + index}`);
    return { start, texts, ids: texts.map((_, index) => start + index), special: [start], streams: { entropy: { values: texts.map((_, index) => (start + index) / 100), recomputed: true } }, tokenizer: { origin: "run" } };
  };
  const tokens = new Tokens(25, load, () => (changes += 1), 10);
  assert.equal(tokens.need(5, 12), false);
  assert.equal(tokens.need(5, 12), false);
  await new Promise((done) => setTimeout(done));
  assert.deepEqual(asked, [0, 10]);
  assert.equal(tokens.need(5, 12), true);
  assert.equal(changes, 2);
  assert.deepEqual([tokens.text(12), tokens.id(12), tokens.value("entropy", 12), tokens.special(10), tokens.recomputed("entropy", 12)], ["t12", 12, 0.12, true, true]);
  assert.deepEqual([tokens.text(22), tokens.id(22), tokens.value("entropy", 22), tokens.value("advantage", 1)], [null, null, null, null]);
  tokens.need(20, 25);
  await new Promise((done) => setTimeout(done));
  assert.equal(tokens.error.message, "gone");
  tokens.again();
  tokens.need(20, 25);
  await new Promise((done) => setTimeout(done));
  assert.equal(tokens.error, null);
  assert.equal(tokens.text(24), "t24");
});

/** A server's answer for a window of texts. @param {number} start @param {string[]} texts */
const answer = (start, texts) => ({ start, texts, ids: texts.map((_, index) => start + index), special: [], streams: {}, tokenizer: {} });

test("tokens that cannot be read are asked for once, and again when somebody says so", async () => {
  let asked = 0;
  const tokens = new Tokens(4, async () => Promise.reject(new Error(`no ${(asked += 1)}`)), () => tokens.need(0, 4), 4);
  assert.equal(tokens.need(0, 4), false);
  await new Promise((done) => setTimeout(done, 20));
  assert.deepEqual([asked, tokens.error?.message], [1, "no 1"]);
  tokens.again();
  await new Promise((done) => setTimeout(done, 20));
  assert.equal(asked, 2);
});

test("tokens of which more became known stay until they were read again", async () => {
  let text = "old";
  const tokens = new Tokens(1, async (start) => answer(start, [text]), () => {}, 1);
  tokens.need(0, 1);
  await new Promise((done) => setTimeout(done));
  text = "new";
  tokens.renew();
  assert.deepEqual([tokens.need(0, 1), tokens.text(0)], [true, "old"]);
  await new Promise((done) => setTimeout(done));
  assert.equal(tokens.text(0), "new");
});

test("pieces are cut where lines end, and the same ones wherever one looks from", () => {
  assert.deepEqual(cuts(100, 300, (nominal) => nominal), [100]);
  assert.deepEqual(cuts(100, 900, (nominal) => nominal), [100, 356, 612]);
  const near = (nominal) => cutNear(nominal, (position) => position === 260 || position === 530);
  assert.deepEqual(cuts(0, 1000, near), [0, 261, 531, 768]);
  assert.equal(cutNear(500, (position) => position === 300), 500);
});

test("the pieces on the screen, by heights that were measured and guessed", () => {
  const pieces = [50, 100, 25].map((about, index) => ({ key: String(index), message: index, first: index * 10, last: index * 10 + 10, from: index * 10, to: index * 10 + 10, head: true, tail: true, about }));
  const heights = new Heights();
  assert.equal(heights.measure("1", 200), true);
  assert.equal(heights.measure("1", 200.2), false);
  const tops = heights.tops(pieces);
  assert.deepEqual([...tops], [0, 50, 250, 275]);
  assert.deepEqual(piecesBetween(tops, 0, 40), [0, 1]);
  assert.deepEqual(piecesBetween(tops, 60, 251), [1, 3]);
  assert.deepEqual(piecesBetween(tops, 900, 1000), [2, 3]);
  assert.deepEqual(piecesBetween(new Heights().tops([]), 0, 10), [0, 0]);
  assert.equal(pieceOfToken(pieces, 15), 1);
  assert.equal(pieceOfToken(pieces, 99), 2);
  assert.equal(pieceOfToken([], 0), -1);
  assert.deepEqual([0, 150, 275].map((height) => tokenAt(pieces, tops, height)), [0, 15, 30]);
  const gap = [{ ...pieces[0] }, { ...pieces[1], first: 0, last: 0 }, { ...pieces[2] }];
  assert.deepEqual([besideToken(gap, 9, 1), besideToken(gap, 20, -1), besideToken(gap, 29, 1), besideToken(gap, 0, -1), besideToken(gap, 4, 1)], [20, 9, null, null, 5]);
});

test("marked tokens are walked in a circle", () => {
  assert.equal(nextMarked([3, 9], 3, 1), 9);
  assert.equal(nextMarked([3, 9], 9, 1), 3);
  assert.equal(nextMarked([3, 9], 3, -1), 9);
  assert.equal(nextMarked([3, 9], -1, 1), 3);
  assert.equal(nextMarked([], 0, 1), null);
});

const node = (index, role, parts, more = {}) => ({ index, parent: index - 1, role, sampled: role === "assistant", parts, timestamp: null, tokens: 10, call: null, ...more });

test("a result stands under its call, and in a branch tokens have their place", () => {
  const nodes = [
    node(0, "user", [{ type: "text", text: "go" }]),
    node(1, "assistant", [{ type: "tool_call", name: "python", text: "{}", id: "c1" }], { tokens: 700 }),
    node(2, "tool", [{ type: "text", text: "42" }], { tool_call_id: "c1", answers: 1 }),
    node(3, "tool", [{ type: "text", text: "lost" }], { tool_call_id: "other" }),
    node(4, "assistant", [{ type: "text", text: "done" }]),
  ];
  const branch = { index: 0, nodes: [0, 1, 2, 3, 4], tokens: 740 };
  const messages = messagesOf(nodes, branch, "sampled");
  assert.deepEqual(messages.map(({ node: { index }, first, asTokens }) => [index, first, asTokens]), [[0, 0, false], [1, 10, true], [3, 720, false], [4, 730, true]]);
  assert.equal(messages[1].results.get("c1")?.[0].index, 2);
  assert.equal(messageOfNode(messages, 2), 1);
  assert.equal(messagesOf(nodes, branch, "all").length, 5);
  assert.ok(messagesOf(nodes, null, "all").every(({ asTokens }) => !asTokens));
  const derived = messagesOf(nodes, { ...branch, nodes: null, leaf: 4 }, "sampled");
  assert.deepEqual(derived.map(({ node: { index } }) => index), [0, 1, 3, 4]);
  const pieces = piecesOf(messages, (nominal) => nominal, 800);
  assert.deepEqual(pieces.filter(({ message }) => message === 1).map(({ first, last, head, tail }) => [first, last, head, tail]), [[10, 266, true, false], [266, 522, false, false], [522, 710, false, true]]);
  assert.equal(prettyArguments('{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(prettyArguments("not json"), "not json");
});

test("lanes of time on one axis", () => {
  const lanes = [
    { label: "Lifecycle", kind: "lifecycle", spans: [{ kind: "boot", start: 100, end: 102 }, { kind: "agent", start: 102, end: null }] },
    { label: "Solver", kind: "call", spans: [{ kind: "model", start: 103, end: 120, node: 3 }, { kind: "model", start: null, end: 130 }] },
  ];
  assert.deepEqual(extent(lanes), [100, 130]);
  assert.equal(extent([]), null);
  const drawn = drawing(lanes, [{ version: 4, time: 110 }, { version: 3, time: 90 }], 736);
  assert.equal(drawn.rows[1].spans.length, 1);
  assert.equal(drawn.rows[0].spans[1].open, true);
  assert.deepEqual(drawn.policies.map(({ version }) => version), [4]);
  assert.ok(drawn.rows[0].spans[1].x + drawn.rows[0].spans[1].width <= 736);
  assert.equal(drawing([], [], 500), null);
  assert.deepEqual(ticks(200, 900), [0, 30, 60, 90, 120, 150, 180]);
  assert.equal(secondsOf(lanes, ["model"]), 17);
});

test("a long text in blocks loses nothing", () => {
  const text = `${"a".repeat(50)}\n${"b".repeat(200)}\ud83d\ude00${"c".repeat(60)}`;
  const cut = blocks(text, 100);
  assert.ok(cut.length > 2 && cut.every((block) => block.length <= 100));
  assert.equal(cut.join("").replaceAll("\n", ""), text.replaceAll("\n", ""));
  assert.ok(cut.every((block) => !/[\ud800-\udbff]$/.test(block)));
  assert.deepEqual(blocks(""), []);
});
