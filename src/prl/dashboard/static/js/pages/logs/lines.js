/**
 * Log entries as the rows of a list: what each shows, how high it is, which are on the screen. Pure.
 *
 * Every height is known beforehand: a line never wraps in the list of lines, so that rows need not be measured.
 */

export const LINE = 23;
const DETAIL = 20;
/** Lines below the first that are shown of a traceback that is folded. */
const FOLDED = 3;
const MOST_DETAIL = 200;
/** Severities of what broke; the rest is worth a look, or was planned. */
const BROKE = new Set(["fatal", "error"]);

/**
 * @typedef {object} Entry  as GET .../logs has it
 * @property {string} component
 * @property {string} file
 * @property {number} offset
 * @property {number} end
 * @property {string} level
 * @property {number | null} time
 * @property {boolean} exact
 * @property {string | null} rank
 * @property {string | null} tag
 * @property {string} message
 * @property {string[]} more
 * @property {number} more_total
 * @property {string | null} exception
 * @property {number} count
 * @property {number | null} last_time
 */

/** @typedef {{time: number | null, id: string, severity: string, file: string, offset: number, text: string}} Incident */
/** @typedef {{kind: "entry", key: string, entry: Entry, height: number, detail: string[], hidden: number, open: boolean, echo: boolean}} EntryRow */
/** @typedef {{kind: "incident", key: string, incident: Incident, height: number}} IncidentRow */
/** @typedef {{kind: "day", key: string, time: number, height: number}} DayRow */
/** @typedef {EntryRow | IncidentRow | DayRow} Row */

/** What names an entry. @param {Entry | {file: string, offset: number}} entry */
const entryKey = (entry) => `${entry.file}:${entry.offset}`;

/**
 * The rows for entries: an incident's banner stands above its first line, a day's date where the day changes.
 * @param {readonly Entry[]} entries oldest first
 * @param {ReadonlySet<string>} unfolded keys of entries that are shown whole
 * @param {readonly Incident[]} incidents what broke first comes first: the others that broke are its echoes
 * @returns {Row[]}
 */
export function rowsOf(entries, unfolded, incidents) {
  const [first, ...others] = incidents.filter(({ severity }) => BROKE.has(severity));
  /** @type {Row[]} */
  const rows = [];
  let day = "";
  for (const entry of entries) {
    const key = entryKey(entry);
    if (entry.time !== null && entry.exact) {
      const today = new Date(entry.time * 1000).toDateString();
      if (day && today !== day) rows.push({ kind: "day", key: `day ${key}`, time: entry.time, height: LINE + 8 });
      day = today;
    }
    const cause = first !== undefined && holds(entry, first);
    if (cause) rows.push({ kind: "incident", key: `incident ${key}`, incident: first, height: 34 });
    rows.push(entryRow(entry, key, unfolded.has(key), !cause && others.some((other) => holds(entry, other))));
  }
  return rows;
}

/** Whether a byte of a file is one of an entry's. @param {Entry} entry @param {{file: string, offset: number}} place */
export const holds = (entry, { file, offset }) => entry.file === file && entry.offset <= offset && offset < Math.max(entry.end, entry.offset + 1);

/** @param {Entry} entry @param {string} key @param {boolean} open @param {boolean} echo @returns {EntryRow} */
function entryRow(entry, key, open, echo) {
  const detail = open ? entry.more.slice(-MOST_DETAIL) : folded(entry);
  const hidden = entry.more_total - detail.length;
  const fold = entry.more_total > 0 ? DETAIL : 0;
  return { kind: "entry", key, entry, height: LINE + detail.length * DETAIL + fold, detail, hidden, open, echo };
}

/** Of a traceback its last frames of our own code and the exception; of anything else nothing. @param {Entry} entry */
function folded(entry) {
  if (entry.exception === null) return [];
  const lines = entry.more.filter((line) => line.trim() !== "");
  const frames = lines.filter((line) => /^\s+File "/.test(line) && !/site-packages|\/lib\/python/.test(line));
  const last = lines.at(-1);
  return [...frames.slice(-(FOLDED - 1)), ...(last === undefined || frames.at(-1) === last ? [] : [last])];
}

/**
 * Where each row begins; one more number at the end: the height of all.
 * @param {readonly {height: number}[]} rows
 */
export function offsetsOf(rows) {
  const offsets = new Float64Array(rows.length + 1);
  rows.forEach((row, index) => (offsets[index + 1] = offsets[index] + row.height));
  return offsets;
}

/**
 * The row at a height. @param {Float64Array} offsets @param {number} top
 */
export function rowAt(offsets, top) {
  let [low, high] = [0, Math.max(0, offsets.length - 2)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (offsets[middle] <= top) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * Entries joined, oldest first, none twice: pages overlap where files grew between two questions.
 * @param {readonly Entry[]} before
 * @param {readonly Entry[]} after of two with one key, the later wins: it may have been counted on
 */
export function joined(before, after) {
  const known = new Map(after.map((entry) => [entryKey(entry), entry]));
  return [...before.filter((entry) => !known.has(entryKey(entry))), ...after];
}

/**
 * A text cut where a search matches: [[text, whether it matches], ...].
 * @param {string} text
 * @param {RegExp | null} pattern global
 * @returns {[string, boolean][]}
 */
export function marked(text, pattern) {
  if (pattern === null) return [[text, false]];
  /** @type {[string, boolean][]} */
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(pattern)) {
    if (match[0] === "") continue;
    if (match.index > last) parts.push([text.slice(last, match.index), false]);
    parts.push([match[0], true]);
    last = match.index + match[0].length;
    if (parts.length > 100) break;
  }
  if (last < text.length) parts.push([text.slice(last), false]);
  return parts;
}

/**
 * The expression by which the page marks what the server found. Null where there is none, or the browser reads it
 * otherwise than the server and refuses it: hits then stand unmarked.
 * @param {string} query
 * @param {boolean} regex
 * @param {boolean} [matchCase]
 */
export function patternOf(query, regex, matchCase = false) {
  if (query === "") return null;
  try {
    return new RegExp(regex ? query : query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), matchCase ? "g" : "gi");
  } catch {
    return null;
  }
}

/**
 * The moment that somebody typed: "14:05", "14:05:09", "2026-03-01 14:05", or Unix seconds. A time of day is of the
 * day of `near`. Null when it is none.
 * @param {string} text
 * @param {number} near Unix seconds
 */
export function typedTime(text, near) {
  const wanted = text.trim();
  if (/^\d{9,11}(\.\d+)?$/.test(wanted)) return Number(wanted);
  const day = wanted.match(/^(\d{4})-(\d{2})-(\d{2})(?:[ T]+|$)/);
  const clock = wanted.slice(day?.[0].length ?? 0).match(/^(\d{1,2}):(\d{2})(?::(\d{2}))?$/);
  if (!day && !clock) return null;
  const at = new Date(near * 1000);
  if (day) at.setFullYear(Number(day[1]), Number(day[2]) - 1, Number(day[3]));
  const [hours, minutes, seconds] = clock ? [Number(clock[1]), Number(clock[2]), Number(clock[3] ?? 0)] : [0, 0, 0];
  if (hours > 23 || minutes > 59 || seconds > 59) return null;
  at.setHours(hours, minutes, seconds, 0);
  return Number.isNaN(at.getTime()) ? null : at.getTime() / 1000;
}
