import assert from "node:assert/strict";
import { test } from "node:test";

import { Place } from "../../src/prl/dashboard/static/js/lib/place.js";
import { longestOf, rewardBar, stageBars, timingBars } from "../../src/prl/dashboard/static/js/pages/traces/bars.js";
import { bars, binAt, binsOf, timeOf } from "../../src/prl/dashboard/static/js/pages/traces/bins.js";
import { activeFilters, filterParameters, rangeEnds, rangeOf, rangeText, typedFilters, walkedStep, withoutFilters } from "../../src/prl/dashboard/static/js/pages/traces/filters.js";
import { PagedList } from "../../src/prl/dashboard/static/js/pages/traces/pages.js";
import { dots, partedRows, pickStep } from "../../src/prl/dashboard/static/js/pages/traces/parting.js";

test("filters go to the address and back", () => {
  const place = new Place("?page=traces&run=r&sort=reward").with({ env: ["math", "a&b"], reward: "..0.5", text: "carry one", truncated: true });
  const again = new Place(place.href);
  assert.deepEqual(filterParameters(again), { env: ["math", "a&b"], reward: "..0.5", truncated: "true" });
  assert.deepEqual(activeFilters(again), ["env", "reward", "truncated"]);
  assert.deepEqual(filterParameters(again, ["env"]), { reward: "..0.5", truncated: "true" });
  assert.equal(withoutFilters(again).href, "?page=traces&run=r&sort=reward&text=carry+one");
  assert.deepEqual(activeFilters(withoutFilters(again, ["env"])), ["reward", "truncated"]);
});

test("words that are typed set filters, the rest is text", () => {
  assert.deepEqual(typedFilters("reward>0.5 task:mw-7 carry the one"), { reward: "0.5..", task: ["mw-7"], text: "carry the one" });
  assert.deepEqual(typedFilters("reward>=0.2 reward<0.8"), { reward: "0.2..0.8", text: "" });
  assert.deepEqual(typedFilters("step:3..9 env:a env:b"), { step: "3..9", env: ["a", "b"], text: "" });
  assert.deepEqual(typedFilters('"reward>0.5 as it stands"'), { text: "reward>0.5 as it stands" });
  assert.deepEqual(typedFilters("http://x reward>much task<3"), { text: "http://x reward>much task<3" });
  assert.deepEqual(typedFilters("constructor:x __proto__:y"), { text: "constructor:x __proto__:y" });
});

test("a range as text, as its ends, and of two ends", () => {
  assert.deepEqual(["3..9", "3..", "..9", "7", "", "-1..0"].map((range) => rangeText(range)), ["3 to 9", "from 3", "up to 9", "7", "any", "\u22121 to 0"]);
  assert.deepEqual(rangeEnds("7"), ["7", "7"]);
  assert.equal(rangeOf("", ""), "");
  assert.equal(rangeOf("\u22121", " 2 "), "-1..2");
  assert.equal(rangeOf("4", "4"), "4");
  assert.equal(rangeOf("x", "2"), null);
});

test("steps are walked from the range that is set, and not beyond the run", () => {
  assert.equal(walkedStep("", [1, 40], -1), 40);
  assert.equal(walkedStep("", [1, 40], 1), 1);
  assert.equal(walkedStep("7", [1, 40], 1), 8);
  assert.equal(walkedStep("3..9", [1, 40], -1), 2);
  assert.equal(walkedStep("40", [1, 40], 1), null);
  assert.equal(walkedStep("5", null, 1), null);
});

test("only pages that are seen are asked for, and once", () => {
  const list = new PagedList(10);
  list.put(0, [..."abcdefghij"], 25);
  assert.deepEqual(list.missing(0, 9), []);
  assert.deepEqual(list.missing(5, 25), [1, 2]);
  assert.deepEqual(list.missing(5, 25), []);
  list.failed(2);
  assert.deepEqual(list.missing(20, 25), [2]);
  assert.equal(list.at(3), "d");
  assert.equal(list.at(12), null);
  assert.equal(list.rows().length, 25);
});

test("bins of the arrivals and the time that they mean", () => {
  const histogram = { start: 1000, width: 10, counts: [0, 4, 8, 1], errors: [0, 0, 4, 0] };
  const drawn = bars(histogram, 40, 20, [1, 2]);
  assert.deepEqual(drawn.map(({ height }) => height), [0, 10, 20, 2.5]);
  assert.deepEqual(drawn.map(({ chosen }) => chosen), [false, true, true, false]);
  assert.equal(drawn[2].errors, 10);
  assert.equal(binAt(histogram, 39, 40), 3);
  assert.equal(binAt(histogram, -5, 40), 0);
  assert.deepEqual(timeOf(histogram, 2, 1), { since: 1010, until: 1030 });
  assert.deepEqual(binsOf(histogram, 1010, 1030), [1, 2]);
  assert.equal(binsOf(histogram, null, null), null);
});

test("bars of time and reward stay within their width", () => {
  const parts = timingBars({ boot: 1, setup: null, agent: 100, scoring: 3 }, 104, 50, 150);
  assert.deepEqual(parts.map(({ part }) => part), ["boot", "agent", "scoring"]);
  assert.ok(parts.reduce((sum, { width }) => sum + width, 0) <= 151);
  assert.equal(timingBars(null, 25, 50, 100)[0].width, 50);
  assert.equal(timingBars(null, null, 50, 100).length, 0);
  assert.ok(longestOf([1, 2, 3, null]) < 3.1);
  assert.deepEqual(rewardBar(0.5, [0, 1], 60), { zero: 0, x: 0, width: 30 });
  assert.deepEqual(rewardBar(-1, [-1, 1], 60), { zero: 30, x: 0, width: 30 });
  assert.equal(rewardBar(null, [0, 1], 60).width, 0);
  const stages = stageBars({ pending: 1, running: 997 }, 380);
  assert.ok(stages[0].width >= 2 && stages[1].x + stages[1].width <= 380);
});

test("rollouts of one way stand together, the best way first, each with the text it parts by", () => {
  const rollouts = [
    { row: { reward: 0 }, text_after: " Each friend gets 2/5" },
    { row: { reward: 1 }, text_after: " He gave away 10, so" },
    { row: { reward: 0 }, text_after: " Each friend takes" },
    { row: { reward: null }, text_after: null },
  ];
  const parting = { token: 214, turn: 1, shared_text: "3 \u00d7 14", ways: [{ rollouts: [0, 2], text: " Each friend", probability: 0.1 }, { rollouts: [1], text: " He gave", probability: 0.6 }] };
  const rows = partedRows(parting, rollouts);
  assert.deepEqual(rows.map(({ index, way, first }) => [index, way, first]), [[1, 0, true], [0, 1, true], [2, 1, false], [3, -1, true]]);
  assert.deepEqual([rows[0].marked, rows[0].rest], [" He gave", " away 10, so"]);
  assert.equal(partedRows(null, rollouts).length, 4);
});

test("dots of a task, and two steps that are picked", () => {
  assert.deepEqual(dots(4, 1), [true, false, false, false]);
  assert.equal(dots(64, 32).filter(Boolean).length, 8);
  assert.deepEqual(dots(0, 0), []);
  assert.deepEqual(pickStep(pickStep(pickStep([], 3), 9), 12), [9, 12]);
  assert.deepEqual(pickStep([9, 12], 9), [12]);
});
