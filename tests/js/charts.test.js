import assert from "node:assert/strict";
import { test } from "node:test";

import { bandAreas } from "../../src/prl/dashboard/static/js/charts/bands.js";
import { placeLabels, shortNames } from "../../src/prl/dashboard/static/js/charts/labels.js";
import { commonX, extent, lastValue, nearest, spread } from "../../src/prl/dashboard/static/js/charts/points.js";
import { multiples, roundStep, runScale, short, valueScale } from "../../src/prl/dashboard/static/js/charts/scales.js";
import { medianDistance, smoothed } from "../../src/prl/dashboard/static/js/charts/smoothing.js";
import { parseZoom, zoomText } from "../../src/prl/dashboard/static/js/charts/zoom.js";

const written = (/** @type {any} */ scale) => scale.ticks.map(scale.text);

test("a step is round", () => {
  assert.equal(roundStep(0.3), 0.5);
  assert.equal(roundStep(0.02), 0.02);
  assert.equal(roundStep(2.1), 2.5);
  assert.equal(roundStep(2.1, true), 5);
  assert.equal(roundStep(0.2, true), 1);
  assert.deepEqual(multiples(0, 0.3, 0.1), [0, 0.1, 0.2, 0.3]);
});

test("a value axis begins and ends at ticks, with no more intervals than fit", () => {
  for (let low = -50; low < 50; low += 3.7) {
    for (const span of [1e-6, 0.02, 0.9, 7, 4321, 8e8]) {
      const { min, max, ticks } = valueScale(low, low + span, { intervals: 3 });
      assert.ok(min <= low + span * 1e-6 && max >= low + span * (1 - 1e-6), `${low} ${span}`);
      assert.ok(ticks.length >= 2 && ticks.length <= 4, `${low} ${span}: ${ticks}`);
      assert.deepEqual([ticks[0], ticks.at(-1)], [min, max]);
    }
  }
});

test("ticks are written with the digits that tell them apart, and no more", () => {
  assert.deepEqual(written(valueScale(0, 0.93, { intervals: 2 })), ["0", "0.5", "1"]);
  assert.deepEqual(written(valueScale(0, 0.034, { intervals: 2 })), ["0", "0.02", "0.04"]);
  assert.deepEqual(written(valueScale(0.001, 0.11, { format: "percent", fromZero: true })), ["0%", "5%", "10%", "15%"]);
  assert.deepEqual(written(valueScale(-3, 3)), ["\u22125", "0", "5"]);
  assert.deepEqual(written(valueScale(0, 70_000)), ["0", "25k", "50k", "75k"]);
  assert.deepEqual(written(valueScale(0, 6 * 2 ** 30, { format: "bytes" })), ["0", "2 GiB", "4 GiB", "6 GiB"]);
});

test("a constant has an axis around it, and nothing has one too", () => {
  const { min, max } = valueScale(5, 5);
  assert.ok(min < 5 && max > 5);
  assert.deepEqual(valueScale(Infinity, -Infinity).ticks.length >= 2, true);
  assert.deepEqual([valueScale(0, 0).min, valueScale(0, 0).max], [0, 1]);
});

test("a logarithmic axis has its ticks at powers of ten, within one power at 1, 2 and 5", () => {
  assert.deepEqual(written(valueScale(-6.2, -0.5, { log: true, intervals: 4 })), ["1e\u22127", "1e\u22125", "0.001", "0.1", "10"]);
  assert.deepEqual(written(valueScale(Math.log10(1.2), Math.log10(4), { log: true })), ["1", "2", "5"]);
});

test("the x axis keeps its range and has whole steps, clock times or short token counts", () => {
  assert.deepEqual(written(runScale(0, 412, "step", 5)), ["0", "100", "200", "300", "400"]);
  assert.deepEqual(runScale(0, 3, "step", 8).ticks, [0, 1, 2, 3]);
  assert.deepEqual(written(runScale(0, 4 * 3600, "time", 5)), ["0", "1 h", "2 h", "3 h", "4 h"]);
  assert.deepEqual(written(runScale(0, 1500, "time", 4)), ["0", "10 min", "20 min"]);
  assert.deepEqual(written(runScale(0, 3e6, "tokens", 4)), ["0", "1M", "2M", "3M"]);
  const { min, max } = runScale(7, 7, "step", 4);
  assert.ok(min < 7 && max > 7);
});

test("short numbers", () => {
  assert.deepEqual([0, 950, 12_000, 1.5e6, -2e9, 3e-7, 0.002].map(short), ["0", "950", "12k", "1.5M", "\u22122B", "3e\u22127", "0.002"]);
});

test("smoothing has no bias to the first value, and forgets over a gap", () => {
  assert.deepEqual(smoothed([0, 1, 2], [1, 1, 1], 0.9), [1, 1, 1]);
  // Weights 0.5 and 1: (0.5 * 0 + 1 * 3) / 1.5.
  assert.deepEqual(smoothed([0, 1], [0, 3], 0.5), [0, 2]);
  const near = /** @type {number} */ (smoothed([0, 1, 2, 3], [0, 0, 0, 1], 0.9)[3]);
  const far = /** @type {number} */ (smoothed([0, 1, 2, 40], [0, 0, 0, 1], 0.9)[3]);
  assert.ok(far > 0.95 && near < 0.5);
});

test("smoothing leaves a value that is not finite where it is", () => {
  assert.deepEqual(smoothed([0, 1, 2], [2, null, 2], 0.8), [2, null, 2]);
  assert.deepEqual(smoothed([], [], 0.8), []);
  assert.equal(medianDistance([0, 1, 2, 10]), 1);
});

test("labels never overlap, keep their order and stay inside", () => {
  assert.deepEqual(placeLabels([20, 60], 16, 0, 100), [20, 60]);
  assert.deepEqual(placeLabels([50, 50], 16, 0, 100), [42, 58]);
  assert.deepEqual(placeLabels([0, 1, 2], 16, 0, 100), [8, 24, 40]);
  assert.deepEqual(placeLabels([99, 98], 16, 0, 100), [92, 76]);
  const placed = placeLabels([40, 44, 70, 71, 72, 10], 16, 0, 120).sort((a, b) => a - b);
  placed.slice(1).forEach((value, index) => assert.ok(value - placed[index] >= 16 - 1e-9));
});

test("names lose the words that they share", () => {
  assert.deepEqual(shortNames(["mixed-0.6b-r5", "mixed-0.6b-r6"]), ["r5", "r6"]);
  assert.deepEqual(shortNames(["math-word", "reverse-text"]), ["math-word", "reverse-text"]);
  assert.deepEqual(shortNames(["a-b", "a-b-c"]), ["b", "b-c"]);
  assert.deepEqual(shortNames(["one"]), ["one"]);
  assert.deepEqual(shortNames(["same", "same"]), ["same", "same"]);
});

test("a band has at most one pair of points a pixel, with the extremes kept, and ends where values are missing", () => {
  const x = Array.from({ length: 1000 }, (_, index) => index);
  const low = x.map((value) => -value);
  const high = x.map((value) => (value === 500 ? null : value));
  const areas = bandAreas(x, low, high, (value) => value / 10, (value) => -value);
  assert.equal(areas.length, 2);
  assert.equal(areas[0].length, 50);
  assert.deepEqual(areas[0][0], [0, -9, 9]);
});

test("lines of other x share one, absent points are not breaks", () => {
  const { x, places } = commonX([{ x: [0, 1, 2, 3] }, { x: [1, 2.5] }]);
  assert.deepEqual(x, [0, 1, 2, 2.5, 3]);
  assert.deepEqual(spread([5, null], places[1], x.length), [undefined, 5, undefined, null, undefined]);
  assert.deepEqual(commonX([]).x, []);
});

test("the nearest point, the last value, the extent within a range", () => {
  assert.deepEqual([-5, 0.4, 0.6, 99].map((at) => nearest([0, 1, 2], at)), [0, 0, 1, 2]);
  assert.equal(nearest([], 1), -1);
  assert.equal(lastValue([1, 2, null]), 1);
  assert.equal(lastValue([null]), -1);
  assert.deepEqual(extent([0, 1, 2], [5, null, 9], 0, 1), [5, 5]);
});

test("a zoom survives its address; nonsense is none", () => {
  assert.deepEqual(parseZoom(zoomText([120.4, 180.2], "step")), [120, 180]);
  for (const text of ["", "1", "1..", "2..1", "a..b", "1..2..3", "1..1"]) assert.equal(parseZoom(text), null, text);
  assert.equal(zoomText([1.1, 1.2], "step"), "");
});
