import assert from "node:assert/strict";
import { test } from "node:test";

import { Place } from "../../src/prl/dashboard/static/js/lib/place.js";
import { visibleRows } from "../../src/prl/dashboard/static/js/lib/windowing.js";

test("a place survives its address", () => {
  const place = new Place("").with({ page: "traces", run: "a b~00000000", env: ["x", "y&z=1"], step: "3..9", open: true });
  const again = new Place(place.href);
  assert.deepEqual([again.page, again.run, again.all("env"), again.get("step"), again.flag("open")], ["traces", "a b~00000000", ["x", "y&z=1"], "3..9", true]);
});

test("another page keeps the run and the theme, not the filters", () => {
  const place = new Place("?page=traces&run=r&theme=dark&env=x").to("logs", { level: "warn" });
  assert.equal(place.href, "?page=logs&run=r&theme=dark&level=warn");
});

test("an unknown page is the run's overview, without a run the list", () => {
  assert.equal(new Place("?page=__proto__&run=r").page, "overview");
  assert.equal(new Place("").page, "runs");
});

test("a parameter that is no number is null", () => {
  assert.equal(new Place("?a=x").number("a"), null);
  assert.equal(new Place("?a=").number("a"), null);
  assert.equal(new Place("?a=-2.5").number("a"), -2.5);
});

test("only the rows on the screen are drawn", () => {
  const { first, last, before, after } = visibleRows(50_000, 28, 28_000, 560, 10);
  assert.deepEqual([first, last], [990, 1030]);
  assert.equal(before + (last - first) * 28 + after, 50_000 * 28);
  assert.deepEqual(visibleRows(0, 28, 0, 500), { first: 0, last: 0, before: 0, after: 0 });
});
