import assert from "node:assert/strict";
import { test } from "node:test";

import * as format from "../../src/prl/dashboard/static/js/lib/format.js";

test("numbers keep about four digits and a real minus sign", () => {
  assert.equal(format.number(0.85612), "0.856");
  assert.equal(format.number(-0.625), "\u22120.625");
  assert.equal(format.number(1234.5), "1,235");
  assert.equal(format.number(3e-6), "3.00e\u22126");
  assert.equal(format.number(0), "0");
});

test("what is not known is n/a, never 0", () => {
  for (const nothing of [null, undefined, NaN, Infinity]) {
    assert.equal(format.number(nothing), "n/a");
    assert.equal(format.percent(nothing), "n/a");
    assert.equal(format.duration(nothing), "n/a");
    assert.equal(format.moment(nothing), "n/a");
  }
});

test("durations have at most two units", () => {
  assert.equal(format.duration(61.4), "61.4 s");
  assert.equal(format.duration(218), "3 min 38 s");
  assert.equal(format.duration(26760), "7 h 26 min");
  assert.equal(format.duration(7199.9), "2 h");
  assert.equal(format.duration(0.012), "12 ms");
  assert.equal(format.duration(0), "0 s");
});

test("shares and changes", () => {
  assert.equal(format.percent(0.0078), "0.8%");
  assert.equal(format.percent(0.61), "61%");
  assert.equal(format.change(0.633), "+0.633");
  assert.equal(format.change(-0.1), "\u22120.100");
  assert.equal(format.change(0.0004, (by) => format.fixed(by, 3)), "0.000");
  assert.equal(format.change(-0.0004, (by) => format.fixed(by, 3)), "0.000");
  assert.equal(format.change(0.00674, (by) => format.fixed(by, 3)), "+0.007");
});

test("numbers that stand in a column have as many decimals, and huge ones few characters", () => {
  assert.deepEqual([format.fixed(-0.5, 3), format.fixed(0.25, 3), format.fixed(1e308, 3)], ["\u22120.500", "0.250", "1.00e308"]);
});
