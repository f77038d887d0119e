import assert from "node:assert/strict";
import { test } from "node:test";

import { placesOf, sinceStart, startOf, stepWords } from "../../src/prl/dashboard/static/js/charts/marks.js";
import { axisRange, modelOf, rangeOf, reading, withLooks } from "../../src/prl/dashboard/static/js/charts/model.js";
import { sparkPath } from "../../src/prl/dashboard/static/js/charts/sparkline.js";
import { found, grouped, metricsOf, seenRows, treeOf } from "../../src/prl/dashboard/static/js/pages/metrics/keys.js";
import { fits, meaningOf } from "../../src/prl/dashboard/static/js/pages/metrics/meanings.js";
import { elapsed, merged } from "../../src/prl/dashboard/static/js/pages/overview/merge.js";
import { boundBy, segments } from "../../src/prl/dashboard/static/js/pages/overview/shares.js";
import { fitting, healthCounts, oddOnes, sorted, strictest } from "../../src/prl/dashboard/static/js/pages/runs/rows.js";
import { evidenceWords, findingLook, findingWhen, jobWords, metricOf, rolloutsOf, sentences, shownEvidence } from "../../src/prl/dashboard/static/js/parts/facts.js";

const LOOK = { axis: "step", smoothing: 0, log: false, range: /** @type {[number, number]} */ ([0, 10]), format: "number", fromZero: false, limit: null, width: 300, height: 100 };
const line = (/** @type {any} */ more = {}) => ({ label: "a", producer: "trainer", key: "k", x: [0, 1, 2], y: [1, 2, 3], nonfinite: [], ...more });

// ---- what a chart draws

test("a value that is not finite breaks its line and is told by its word", () => {
  const model = modelOf([line({ y: [1, null, 3], nonfinite: [[1, "nan"]] })], LOOK);
  assert.deepEqual(model.columns, [[1, null, 3]]);
  assert.equal(reading(model.lines[0], 1, false).word, "nan");
  assert.equal(reading(model.lines[0], 2, false).value, 3);
  assert.equal(reading(model.lines[0], null, false).value, 3);
});

test("a line says nothing where it has no point", () => {
  const [drawn] = modelOf([line()], LOOK).lines;
  assert.equal(reading(drawn, 9, false).value, null);
  assert.equal(reading(drawn, 2.6, false).value, 3);
});

test("smoothing keeps the raw line below, a given-up timeline is never smoothed", () => {
  const model = modelOf([line(), line({ old: true })], { ...LOOK, smoothing: 0.9 });
  assert.deepEqual(model.lines.map(({ raw }) => raw !== null), [true, false]);
  assert.equal(model.columns.length, 3);
});

test("on a logarithmic axis what is not positive is not drawn, and values are told as they are", () => {
  const model = modelOf([line({ y: [0, 10, 1000] })], { ...LOOK, log: true });
  assert.deepEqual(model.columns, [[null, 1, 3]]);
  assert.equal(reading(model.lines[0], 2, true).value, 1000);
});

test("a limit is drawn where the lines keep room, and only then", () => {
  assert.equal(modelOf([line()], { ...LOOK, limit: { value: 4, above: true } }).limit, 4);
  assert.equal(modelOf([line()], { ...LOOK, limit: { value: 400, above: true } }).limit, null);
});

test("the value axis is of what is seen in the zoom", () => {
  const model = modelOf([line({ y: [1000, 2, 3] })], { ...LOOK, range: [1, 2] });
  assert.ok(model.yScale.max < 10);
});

test("lines have colours and dashes of their own; runs that are compared have a colour each", () => {
  assert.deepEqual(withLooks([line(), line()]).map(({ color, dash }) => [color, dash]), [[1, 0], [2, 1]]);
  assert.deepEqual(withLooks([line(), line()], 2, true).map(({ color, dash }) => [color, dash]), [[3, 0], [3, 1]]);
  assert.equal(rangeOf([line({ x: [] })]), null);
  assert.deepEqual([axisRange([line({ x: [1, 100] })]), axisRange([line({ x: [50, 100] })])], [[0, 100], [50, 100]]);
});

test("a small line breaks where a value is missing, and a constant runs through the middle", () => {
  assert.deepEqual(sparkPath([1, null, 1], 64, 26), { path: "M1 13M61 13", end: [61, 13] });
  assert.deepEqual(sparkPath([null], 64, 26), { path: "", end: null });
});

// ---- marks

const MARKS = { attempts: [{ attempt: 1, step: 1, time: 100, resumed_from: null }, { attempt: 2, step: 20, time: 300, resumed_from: 19 }], checkpoints: [{ step: 10, time: 150 }, { step: 30, time: null }] };

test("marks lie on the axis that is shown; the first attempt is its beginning", () => {
  assert.deepEqual(placesOf(MARKS, "step", null), { attempts: [20], checkpoints: [10, 30] });
  assert.deepEqual(placesOf(MARKS, "time", 100), { attempts: [200], checkpoints: [50] });
  assert.deepEqual(placesOf(MARKS, "tokens", null), { attempts: [], checkpoints: [] });
  assert.deepEqual(placesOf(null, "step", null), { attempts: [], checkpoints: [] });
});

test("the words of a step", () => {
  assert.equal(stepWords(MARKS, 10), "attempt 1, checkpoint");
  assert.equal(stepWords(MARKS, 20), "attempt 2 resumed here");
  assert.equal(stepWords({ attempts: [MARKS.attempts[0]], checkpoints: [] }, 5), "");
});

test("time begins with the first attempt", () => {
  assert.equal(startOf(MARKS, [{ x: [90, 95] }]), 90);
  assert.equal(startOf(null, []), null);
  assert.deepEqual(sinceStart(line({ x: [100, 110], nonfinite: [[110, "inf"]] }), 100).nonfinite, [[10, "inf"]]);
});

// ---- overview

const overview = (/** @type {any[]} */ lines, axis = "step") => ({ axis, marks: MARKS, sections: [{ id: "train", title: "Train", note: "", charts: [{ id: "reward", title: "Reward", unit: "", format: "number", about: "", limit: null, from_zero: true, lines }] }] });

test("compared runs have their short names and colours in every chart, and no bands", () => {
  const [section] = merged([
    { name: "mixed-r6", overview: overview([line({ low: [0, 0, 0], high: [9, 9, 9] })]) },
    { name: "mixed-r7", overview: overview([line()]) },
  ]);
  assert.deepEqual(section.charts[0].lines.map(({ label, color, low }) => [label, color, low]), [["r6", 1, null], ["r7", 2, null]]);
});

test("of charts with several lines both the run and the line are named", () => {
  const [section] = merged([{ name: "a", overview: overview([line({ label: "x" }), line({ label: "y" })]) }, { name: "b", overview: overview([line({ label: "x" })]) }]);
  assert.deepEqual(section.charts[0].lines.map(({ label }) => label), ["a x", "a y", "b x"]);
});

test("on the axis of time each run begins at zero", () => {
  const shown = elapsed(overview([line({ x: [100, 160, 220] })], "time"));
  assert.deepEqual(shown.sections[0].charts[0].lines[0].x, [0, 60, 120]);
});

test("the parts of a step fill the bar in an order that stays, with what nothing records", () => {
  const bottleneck = { shares: [{ cause: "training", share: 0.6, seconds: 6 }, { cause: "generation", share: 0.3, seconds: 3 }, { cause: "checkpoint", share: 0, seconds: 0 }], unaccounted: 0.1, seconds: 10, first_step: 1, last_step: 5, grow: "inference", why: "", trainer_waits: 0.3 };
  const parts = segments(bottleneck);
  assert.deepEqual(parts.map(({ cause }) => cause), ["generation", "training", "not recorded"]);
  assert.deepEqual(parts.map(({ from }) => Number(from.toFixed(3))), [0, 0.3, 0.9]);
  assert.equal(boundBy(bottleneck), "Bound by inference");
  assert.equal(boundBy({ ...bottleneck, grow: null }), "");
});

// ---- metrics

const row = (/** @type {string} */ key, /** @type {any} */ more = {}) => ({ producer: "orch", key, points: 1, last: 1, last_step: 1, last_time: 1, nonfinite: 0, band: null, ...more });

test("what a band shows is left out, until it is searched for or all is wanted", () => {
  const metrics = metricsOf([row("train/reward/mean", { band: "p10/p90" }), row("train/reward/p10"), row("train/reward/p90"), row("loss/min")]);
  const keys = (/** @type {any} */ filter) => found(metrics, { text: "", below: "", all: false, ...filter }).map(({ key }) => key);
  assert.deepEqual(keys({}), ["loss/min", "train/reward/mean"]);
  assert.equal(keys({ all: true }).length, 4);
  assert.deepEqual(keys({ text: "P10" }), ["train/reward/p10"]);
  assert.deepEqual(keys({ text: "train*mean" }), ["train/reward/mean"]);
  assert.deepEqual(keys({ below: "loss" }), ["loss/min"]);
  assert.deepEqual(keys({ below: "los" }), []);
});

test("a key of two producers is one metric", () => {
  const [metric] = metricsOf([row("time/step"), row("time/step", { producer: "trainer", nonfinite: 2 })]);
  assert.deepEqual([metric.producers, metric.nonfinite], [["orch", "trainer"], 2]);
});

test("groups are the largest branches that are not too large", () => {
  const many = Array.from({ length: 30 }, (_, index) => row(`eval/a/metric${index}`));
  const groups = grouped(metricsOf([row("alone"), row("perf/mfu"), row("perf/x/y"), ...many, row("eval/b/z")]));
  assert.deepEqual(groups.map(([path, members]) => [path, members.length]), [["", 1], ["eval/a", 30], ["eval/b", 1], ["perf", 2]]);
});

test("a branch with one child is one with it; closed branches hide what is below", () => {
  const tree = treeOf(metricsOf([row("a/b/c"), row("a/b/d"), row("e/f")]));
  assert.deepEqual(tree.map(({ name, count }) => [name, count]), [["a/b", 2], ["e/f", 1]]);
  assert.deepEqual(seenRows(tree, () => false).length, 2);
  assert.deepEqual(seenRows(tree, (path) => path === "a/b").map(({ branch }) => branch.path), ["a/b", "a/b/c", "a/b/d", "e/f"]);
});

test("what a key means: the first pattern that fits, its statistics have the unit of its mean", () => {
  assert.ok(fits("eval/*/avg@*", "eval/gsm/effective/agent/avg@4"));
  assert.ok(!fits("a*a", "a") && fits("a*a", "aa") && !fits("x/*", "y/x/z") && fits("k", "k") && !fits("k", "kk"));
  const meanings = [{ match: "*/turns/mean", title: "Turns" }, { match: "*", title: "Anything" }];
  assert.equal(meaningOf(meanings, "a/turns/mean")?.title, "Turns");
  assert.equal(meaningOf([meanings[0]], "a/turns/p90")?.title, "Turns");
  assert.equal(meaningOf([], "x"), null);
});

// ---- runs

const run = (/** @type {any} */ more) => /** @type {any} */ ({ id: more.name, name: "", path: "", dir: "/out", kind: "rl", model: null, dataset: null, train_envs: [], eval_envs: [], step: null, max_steps: null, attempts: [], created: null, phase: null, health: null, finding: null, findings: 0, job: null, host: null, reward: null, problems: [], ...more });
const RUNS = [run({ name: "a", health: "Healthy", step: 10, created: 100, train_envs: ["math-word"], phase: "running" }), run({ name: "b", health: "Down", step: 200, created: 300, finding: { message: "Rank 3 ran out of memory" }, dir: "/out/deep" }), run({ name: "c", dir: "/outer", created: 200 })];
const NONE = { text: "", health: "", phase: "", dir: "" };
const names = (/** @type {any[]} */ runs) => runs.map(({ name }) => name).join("");

test("runs are found by every word, in any field", () => {
  assert.equal(names(fitting(RUNS, { ...NONE, text: "MATH run" })), "a");
  assert.equal(names(fitting(RUNS, { ...NONE, text: "rank 3" })), "b");
  assert.equal(names(fitting(RUNS, { ...NONE, dir: "/out" })), "ab");
  assert.equal(names(fitting(RUNS, { ...NONE, health: "Unknown" })), "c");
});

test("the counts of health are of the runs that fit otherwise", () => {
  assert.deepEqual(healthCounts(RUNS, { ...NONE, health: "Down", dir: "/out" }), { "": 2, Down: 1, Degraded: 0, Healthy: 1, Unknown: 0 });
});

test("what is unknown comes last in either order", () => {
  assert.equal(names(sorted(RUNS, "step", false)), "abc");
  assert.equal(names(sorted(RUNS, "step", true)), "bac");
  assert.equal(names(sorted(RUNS, "health", false)), "bac");
  assert.equal(names(sorted(RUNS, "age", false)), "bca");
  assert.equal(names(sorted(RUNS, "nonsense", false)), "bca");
});

test("the filter that leaves out the most is named", () => {
  assert.equal(strictest(RUNS, { ...NONE, health: "Healthy", phase: "failed" }), "phase");
  assert.equal(strictest(RUNS, NONE), null);
});

test("of values that differ the rare ones stand out", () => {
  assert.deepEqual(oddOnes([1, 1, 2]), [false, false, true]);
  assert.deepEqual(oddOnes([1, 2]), [true, true]);
  assert.deepEqual(oddOnes([[1], [1]]), [false, false]);
});

// ---- words

test("findings: advice is a note whatever its severity, and a step is told with its distance", () => {
  assert.equal(findingLook({ severity: "critical" }), "Down");
  assert.equal(findingLook({ severity: "warning", kind: "advice" }), "Note");
  assert.equal(findingWhen([{ step: null, time: 1 }, { step: 371, time: null }], 412), "step 371, 41 steps ago");
  assert.equal(findingWhen([{ step: 5, time: null }], null), "step 5");
  assert.equal(findingWhen([], 5), "");
});

test("a job in two lines, sentences one after the other", () => {
  assert.deepEqual(jobWords({ id: 48, state: "PENDING", reason: "Resources", nodes: ["n1", "n2"], time_left: 7200 }), ["48 pending", "2 nodes, 2 h left, Resources"]);
  assert.deepEqual(jobWords(null), ["no job", ""]);
  assert.equal(sentences("it fell", null, "Look at it."), "It fell. Look at it.");
});

test("evidence says at which step a value was, and names its key once", () => {
  const kl = (/** @type {number} */ step, /** @type {string} */ value) => ({ text: `mismatch_kl/all/mean = ${value}`, source: "monitors/file/metrics.jsonl", step, link: { page: "metrics", params: { key: "mismatch_kl/all/mean", at: String(step) } } });
  const line = { text: "CUDA out of memory", source: "logs/attempt_1/trainer.log", step: null, link: { page: "logs", params: { file: "logs/attempt_1/trainer.log", offset: "12" } } };
  assert.equal(evidenceWords(kl(44, "0.091"), undefined), "mismatch_kl/all/mean = 0.091 at step 44");
  assert.equal(evidenceWords(kl(45, "0.075"), kl(44, "0.091")), "0.075 at step 45");
  assert.equal(evidenceWords(line, kl(44, "0.091")), "CUDA out of memory");
  assert.deepEqual(shownEvidence([kl(44, "1"), kl(45, "2"), kl(46, "3"), line], 4).map(({ step }) => step), [44, 45, null]);
  assert.deepEqual(rolloutsOf([line, kl(44, "0.091")]), { step: 44, overlay: "mismatch_kl" });
  assert.deepEqual(rolloutsOf([{ ...kl(7, "1"), link: { page: "metrics", params: { key: "reward/all/mean" } } }]), { step: 7, overlay: null });
  assert.equal(rolloutsOf([line]), null);
  const dropped = { ...line, text: "loss/mean is not a number", step: 12 };
  assert.equal(evidenceWords(dropped, undefined), "loss/mean is not a number at step 12");
  assert.deepEqual(shownEvidence([{ ...dropped, step: null }, dropped], 4), [dropped]);
  assert.deepEqual(metricOf([line, dropped]), { key: "loss/mean", at: 12 });
  assert.equal(metricOf([line, kl(44, "1")]), null);
});
