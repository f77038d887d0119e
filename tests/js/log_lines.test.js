import assert from "node:assert/strict";
import { test } from "node:test";

import { joined, marked, offsetsOf, patternOf, rowAt, rowsOf, typedTime } from "../../src/prl/dashboard/static/js/pages/logs/lines.js";

const entry = (/** @type {number} */ offset, more = {}) => ({
  component: "trainer", file: "a.log", offset, end: offset + 10, level: "INFO", time: 1000 + offset, exact: true, rank: null,
  tag: null, message: `line ${offset}`, more: [], more_total: 0, exception: null, count: 1, last_time: null, ...more,
});
const NONE = new Set();

test("every row's height is known, and rows are found by height", () => {
  const rows = rowsOf([entry(0), entry(10, { more: ["a", "b"], more_total: 2 }), entry(20)], new Set(["a.log:10"]), []);
  const offsets = offsetsOf(rows);
  assert.deepEqual([...offsets], [0, 23, 23 + 23 + 20 + 40, 129]);
  assert.deepEqual([rowAt(offsets, 0), rowAt(offsets, 22.9), rowAt(offsets, 23), rowAt(offsets, 1e9)], [0, 0, 1, 2]);
  assert.equal(rowAt(offsetsOf([]), 5), 0);
});

test("a folded traceback shows our own frames and the exception", () => {
  const more = ["Traceback (most recent call last):", '  File "/opt/prl/train.py", line 4, in run', '  File "/x/site-packages/torch/nn.py", line 9, in call', "ValueError: made up"];
  const [row] = rowsOf([entry(0, { more, more_total: 4, exception: "ValueError: made up" })], NONE, []);
  assert.deepEqual(row.detail, ['  File "/opt/prl/train.py", line 4, in run', "ValueError: made up"]);
  assert.equal(row.hidden, 2);
});

test("the incident stands above the entry that holds its line; what broke after it is an echo", () => {
  const incidents = [
    { time: 1, id: "cuda.oom", severity: "fatal", file: "a.log", offset: 13, text: "out of memory" },
    { time: 2, id: "prl.child", severity: "fatal", file: "a.log", offset: 20, text: "trainer failed" },
    { time: 0, id: "env.trace_error", severity: "warn", file: "a.log", offset: 0, text: "one trace failed" },
  ];
  const rows = rowsOf([entry(0), entry(10), entry(20)], NONE, incidents);
  assert.deepEqual(rows.map((row) => row.kind), ["entry", "incident", "entry", "entry"]);
  assert.deepEqual(rows.filter((row) => row.kind === "entry").map((row) => row.echo), [false, false, true]);
});

test("a new day is said once", () => {
  const day = 86400;
  const rows = rowsOf([entry(0, { time: day }), entry(10, { time: 3 * day }), entry(20, { time: 3 * day + 1 })], NONE, []);
  assert.deepEqual(rows.map((row) => row.kind), ["entry", "day", "entry", "entry"]);
});

test("pages that overlap are joined without repeats, the later form of an entry wins", () => {
  const all = joined([entry(0), entry(10)], [entry(10, { count: 3 }), entry(20)]);
  assert.deepEqual(all.map((one) => [one.offset, one.count]), [[0, 1], [10, 3], [20, 1]]);
});

test("what matches is marked, and nothing of the text is lost", () => {
  assert.deepEqual(marked("a.b a.b", patternOf("a.b", false)), [["a.b", true], [" ", false], ["a.b", true]]);
  assert.deepEqual(marked("axb", patternOf("a.b", false)), [["axb", false]]);
  assert.deepEqual(marked("axb", patternOf("A.B", true)), [["axb", true]]);
  assert.deepEqual(marked("abc", patternOf("x*", true)), [["abc", false]]);
  assert.equal(patternOf("(", true), null);
  const long = "x".repeat(500);
  assert.equal(marked(long, patternOf("x", false)).map(([text]) => text).join(""), long);
});

test("a moment is a time of day, a date, or Unix seconds", () => {
  const near = new Date(2026, 2, 1, 12).getTime() / 1000;
  assert.equal(typedTime("14:05", near), new Date(2026, 2, 1, 14, 5).getTime() / 1000);
  assert.equal(typedTime("2026-03-02 01:02:03", near), new Date(2026, 2, 2, 1, 2, 3).getTime() / 1000);
  assert.equal(typedTime("1795946400", near), 1795946400);
  for (const none of ["", "25:00", "noon", "14:5"]) assert.equal(typedTime(none, near), null);
});
