import assert from "node:assert/strict";
import { test } from "node:test";

import { dotted, literal, pathKey, treeRows } from "../../src/prl/dashboard/static/js/pages/configs/tree.js";

const DOCUMENT = { trainer: { optim: { lr: 3e-6 }, "a.b": null }, envs: [{ name: "math" }] };

test("a tree has a row a key, and a closed branch none below it", () => {
  const paths = (/** @type {any[]} */ rows) => rows.map((row) => dotted(row.path));
  assert.deepEqual(paths(treeRows(DOCUMENT, new Set())), ["trainer", "trainer.optim", "trainer.optim.lr", 'trainer."a.b"', "envs", "envs.0", "envs.0.name"]);
  assert.deepEqual(paths(treeRows(DOCUMENT, new Set([pathKey(["trainer"])]))), ["trainer", "envs", "envs.0", "envs.0.name"]);
});

test("a search shows what matches, what leads there, and all below a name that matches, closed or not", () => {
  const shown = (/** @type {string} */ text) => treeRows(DOCUMENT, new Set([pathKey(["trainer"])]), text).map((row) => row.name);
  assert.deepEqual(shown("LR"), ["trainer", "optim", "lr"]);
  assert.deepEqual(shown("math"), ["envs", "0", "name"]);
  assert.deepEqual(shown("optim.lr"), ["trainer", "optim", "lr"]);
  assert.deepEqual(shown("envs"), ["envs", "0", "name"]);
  assert.deepEqual(shown("nowhere"), []);
});

test("a key that names an object's own property is a key", () => {
  const hostile = JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}');
  assert.deepEqual(treeRows(hostile, new Set()).map((row) => row.name), ["__proto__", "x", "constructor"]);
});

test("nothing is said as none, an empty text as itself", () => {
  assert.deepEqual([null, "", [], {}, 0, false].map(literal), ["none", "\"\"", "[]", "{}", "0", "false"]);
});
