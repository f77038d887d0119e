/** Which episodes are asked for, as parameters of the address. Pure. */

/**
 * @typedef {object} Filter
 * @property {string} name  the parameter, of the address and of the server alike
 * @property {string} label
 * @property {"many" | "range" | "time" | "flag"} kind
 * @property {string} [facet]  of the server's facets, where values are chosen from those that occur
 */

/** @type {readonly Filter[]} */
const FILTERS = Object.freeze([
  { name: "env", label: "Environment", kind: "many", facet: "env" },
  { name: "kind", label: "Kind", kind: "many", facet: "kind" },
  { name: "outcome", label: "Outcome", kind: "many", facet: "outcome" },
  { name: "agent", label: "Agent", kind: "many", facet: "agent" },
  { name: "stop", label: "Stop", kind: "many", facet: "stop_condition" },
  { name: "reward", label: "Reward", kind: "range" },
  { name: "step", label: "Step", kind: "range" },
  { name: "dispatched", label: "Dispatched at step", kind: "range" },
  { name: "group", label: "Group", kind: "many" },
  { name: "task", label: "Task", kind: "many" },
  { name: "since", label: "Since", kind: "time" },
  { name: "until", label: "Until", kind: "time" },
  { name: "truncated", label: "Truncated", kind: "flag" },
  { name: "effective", label: "Effective", kind: "flag" },
]);

const BY_NAME = Object.freeze(Object.fromEntries(FILTERS.map((filter) => [filter.name, filter])));

/** Words that may be typed before ":" or a comparison, and the filter that they mean. */
const WORDS = Object.freeze(
  /** @type {Record<string, string>} */ ({ env: "env", environment: "env", kind: "kind", outcome: "outcome", agent: "agent", stop: "stop", group: "group", task: "task", reward: "reward", step: "step", dispatched: "dispatched" }),
);

/**
 * The filters of a place, as parameters of a route.
 * @param {import("../../lib/place.js").Place} place
 * @param {readonly string[]} [without] names that are left out
 * @returns {import("../../lib/place.js").Changes}
 */
export function filterParameters(place, without = []) {
  /** @type {import("../../lib/place.js").Changes} */
  const parameters = {};
  for (const { name, kind } of FILTERS) {
    if (without.includes(name)) continue;
    const values = place.all(name).filter((value) => value !== "");
    if (values.length > 0) parameters[name] = kind === "many" ? values : values[0];
  }
  return parameters;
}

/** The names of the filters that are set. @param {import("../../lib/place.js").Place} place */
export function activeFilters(place) {
  return Object.keys(filterParameters(place));
}

/** This place without the named filters, or without any. @param {import("../../lib/place.js").Place} place @param {readonly string[]} [names] */
export function withoutFilters(place, names = FILTERS.map(({ name }) => name)) {
  return place.with(Object.fromEntries(names.map((name) => [name, null])));
}

/** @param {string} name */
export function labelOf(name) {
  return BY_NAME[name]?.label ?? name;
}

/** A range of the address as text: "3 to 9", "from 3", "up to 9", "9". @param {string} range @param {string} [absent] */
export function rangeText(range, absent = "any") {
  if (range === "") return absent;
  const at = range.indexOf("..");
  if (at < 0) return minus(range);
  const [low, high] = [range.slice(0, at), range.slice(at + 2)];
  if (low !== "" && high !== "") return `${minus(low)} to ${minus(high)}`;
  if (low !== "") return `from ${minus(low)}`;
  return high !== "" ? `up to ${minus(high)}` : absent;
}

/** @param {string} text */
const minus = (text) => text.replace(/^-/, "\u2212");

/** The two ends of a range, "" where it is open. @param {string} range @returns {[string, string]} */
export function rangeEnds(range) {
  const at = range.indexOf("..");
  return at < 0 ? [range, range] : [range.slice(0, at), range.slice(at + 2)];
}

/** The range of two typed ends; "" when both are open, null when one is no number. @param {string} low @param {string} high */
export function rangeOf(low, high) {
  const ends = [low.trim().replace(/^\u2212/, "-"), high.trim().replace(/^\u2212/, "-")];
  if (ends.some((end) => end !== "" && !Number.isFinite(Number(end)))) return null;
  if (ends[0] === "" && ends[1] === "") return "";
  return ends[0] === ends[1] ? ends[0] : `${ends[0]}..${ends[1]}`;
}

/**
 * What somebody typed into the field: `reward>0.5 task:mw-7 stop:length carry the one` sets filters by their words, and
 * the rest is text that is looked for. A quoted text is taken as it stands.
 * @param {string} typed
 * @returns {import("../../lib/place.js").Changes} with `text`, which is looked for and filters nothing, always
 */
export function typedFilters(typed) {
  const trimmed = typed.trim();
  if (/^".*"$/s.test(trimmed) && trimmed.length > 2) return { text: trimmed.slice(1, -1) };
  /** @type {Record<string, string | string[]>} */
  const changes = {};
  const rest = [];
  for (const word of trimmed.split(/\s+/)) {
    const [, name, sign, value] = /^([a-z]+)(:|<=|>=|<|>|=)(.+)$/.exec(word) ?? [];
    const filter = BY_NAME[WORDS[name] ?? ""];
    const set = filter && value ? valueOf(filter, sign, value) : null;
    if (set === null) rest.push(word);
    else if (filter.kind === "many") changes[filter.name] = [...(changes[filter.name] ?? []), set];
    else changes[filter.name] = merged(/** @type {string | undefined} */ (changes[filter.name]), set);
  }
  return { ...changes, text: rest.join(" ") };
}

/** @param {Filter} filter @param {string} sign @param {string} value @returns {string | null} */
function valueOf(filter, sign, value) {
  if (filter.kind === "many") return sign === ":" || sign === "=" ? value : null;
  if (filter.kind !== "range") return null;
  if (sign === ":" || sign === "=") {
    const [low, high] = rangeEnds(value);
    return rangeOf(low, high) || null;
  }
  if (!Number.isFinite(Number(value))) return null;
  return sign.startsWith(">") ? `${value}..` : `..${value}`;
}

/** Two half-open ranges of one filter, as one. @param {string | undefined} first @param {string} second */
function merged(first, second) {
  if (first === undefined) return second;
  const [[low, high], [lower, upper]] = [rangeEnds(first), rangeEnds(second)];
  return `${lower || low}..${upper || high}`;
}

/**
 * The step to go to from here; null where there is none.
 * @param {string} range the filter that is set, or ""
 * @param {readonly [number, number] | null} known the first and last step of the run
 * @param {1 | -1} by
 */
export function walkedStep(range, known, by) {
  if (known === null) return null;
  const [low, high] = rangeEnds(range);
  const from = by > 0 ? high : low;
  if (range === "" || from === "") return by > 0 ? known[0] : known[1];
  const next = Number(from) + by;
  return next < known[0] || next > known[1] ? null : next;
}
