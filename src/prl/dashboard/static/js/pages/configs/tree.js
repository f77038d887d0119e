/** A configuration as rows of a tree that opens and is searched. Pure. */

/** @typedef {{path: string[], name: string, depth: number, branch: boolean, size: number, text: string, kind: string}} TreeRow */

/** Separates the names of a path: no key of a document holds it. */
const SEPARATOR = "\u0000";

/** @param {readonly string[]} path */
export const pathKey = (path) => path.join(SEPARATOR);

/** The way people write a path. @param {readonly string[]} path */
export const dotted = (path) => path.map((name) => (/^[\w-]+$/.test(name) ? name : JSON.stringify(name))).join(".");

/** @param {unknown} value @returns {value is Record<string, unknown> | unknown[]} */
const isBranch = (value) => typeof value === "object" && value !== null;

/**
 * The rows that are to be seen: what is open, or, with a search, what matches and what leads there.
 * @param {unknown} document
 * @param {ReadonlySet<string>} closed path keys
 * @param {string} search looked for in names, dotted paths and values, whatever the case
 * @returns {TreeRow[]}
 */
export function treeRows(document, closed, search = "") {
  /** @type {TreeRow[]} */
  const rows = [];
  const wanted = search.trim().toLowerCase();
  const walk = (/** @type {unknown} */ value, /** @type {string[]} */ path, /** @type {boolean} */ found) => {
    for (const [name, child] of Object.entries(/** @type {object} */ (value))) {
      const at = [...path, name];
      const hit = found || (wanted !== "" && (dotted(at).toLowerCase().includes(wanted) || (!isBranch(child) && literal(child).toLowerCase().includes(wanted))));
      if (wanted && !hit && !(isBranch(child) && holds(child, at, wanted))) continue;
      const branch = isBranch(child) && Object.keys(child).length > 0;
      rows.push({ path: at, name, depth: path.length, branch, size: branch ? Object.keys(/** @type {object} */ (child)).length : 0, text: branch ? "" : literal(child), kind: kindOf(child) });
      if (branch && (wanted !== "" || !closed.has(pathKey(at)))) walk(child, at, hit);
    }
  };
  if (isBranch(document)) walk(document, [], false);
  return rows;
}

/** Whether anything below matches. @param {unknown} value @param {string[]} path @param {string} wanted @returns {boolean} */
function holds(value, path, wanted) {
  return Object.entries(/** @type {object} */ (value)).some(([name, child]) => {
    const at = [...path, name];
    return dotted(at).toLowerCase().includes(wanted) || (isBranch(child) ? holds(child, at, wanted) : literal(child).toLowerCase().includes(wanted));
  });
}

/** A value as it is written. @param {unknown} value */
export function literal(value) {
  if (value === null || value === undefined) return "none";
  if (typeof value === "string") return value === "" ? '""' : value;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** @param {unknown} value */
function kindOf(value) {
  return value === null || value === undefined ? "none" : Array.isArray(value) ? "list" : typeof value;
}
