/** The list of runs: which fit the filters, in which order. Pure. */

/**
 * @typedef {object} Run  a row of GET /api/v1/runs
 * @property {string} id
 * @property {string} name
 * @property {string} path
 * @property {string} dir
 * @property {string | null} kind
 * @property {string | null} model
 * @property {string | null} dataset
 * @property {string[]} train_envs
 * @property {string[]} eval_envs
 * @property {number | null} step
 * @property {number | null} max_steps
 * @property {boolean} endless
 * @property {number | null} attempt
 * @property {number[]} attempts
 * @property {number | null} created
 * @property {number | null} changed
 * @property {number | null} last_progress
 * @property {string | null} phase
 * @property {string | null} health
 * @property {string | null} [reason]
 * @property {{rule: string, severity: string, message: string} | null} finding
 * @property {number} findings
 * @property {any} job
 * @property {string | null} host
 * @property {number[]} checkpoints
 * @property {{points: (number | null)[], last: number | null, change: number | null, step: number | null} | null} reward
 * @property {string[]} problems
 */

/** @typedef {{text: string, health: string, phase: string, dir: string}} Filters  "" lets everything through */

export const HEALTHS = Object.freeze(["Down", "Degraded", "Healthy", "Unknown"]);
/** How a run is called that was not judged yet. */
const UNJUDGED = "Unknown";

/** @type {Record<keyof Filters, (run: Run, wanted: string) => boolean>} */
const TESTS = {
  text: (run, wanted) => {
    const all = [run.name, run.model, run.kind, run.dataset, run.host, run.phase, run.finding?.message, run.reason, run.job?.id, ...run.train_envs, ...run.eval_envs].join("\n").toLowerCase();
    return wanted.toLowerCase().split(/\s+/).every((word) => all.includes(word));
  },
  health: (run, wanted) => (run.health ?? UNJUDGED) === wanted,
  phase: (run, wanted) => (run.phase ?? "unknown") === wanted,
  dir: (run, wanted) => run.dir === wanted || run.dir.startsWith(`${wanted}/`),
};
const NAMES = /** @type {(keyof Filters)[]} */ (Object.keys(TESTS));

/** @param {readonly Run[]} runs @param {Filters} filters @param {keyof Filters} [but] a filter that is left out */
export function fitting(runs, filters, but) {
  const set = NAMES.filter((name) => name !== but && filters[name]);
  return runs.filter((run) => set.every((name) => TESTS[name](run, filters[name])));
}

/** Runs of each health, of those that fit the other filters. @param {readonly Run[]} runs @param {Filters} filters @returns {Record<string, number>} */
export function healthCounts(runs, filters) {
  const fit = fitting(runs, filters, "health");
  return Object.fromEntries([["", fit.length], ...HEALTHS.map((health) => [health, fit.filter((run) => (run.health ?? UNJUDGED) === health).length])]);
}

/** The values of a field with how many runs have it, the most frequent first. @param {readonly Run[]} runs @param {"phase" | "dir"} field @returns {[string, number][]} */
export function valuesOf(runs, field) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const run of runs) counts.set(run[field] ?? "unknown", (counts.get(run[field] ?? "unknown") ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

/** The filter without which most runs would be there; null where none is set. @param {readonly Run[]} runs @param {Filters} filters @returns {keyof Filters | null} */
export function strictest(runs, filters) {
  const set = NAMES.filter((name) => filters[name]);
  const left = (/** @type {keyof Filters} */ name) => fitting(runs, filters, name).length;
  return set.reduce((/** @type {keyof Filters | null} */ worst, name) => (worst === null || left(name) > left(worst) ? name : worst), null);
}

/** What each column sorts by; null goes last in either order. @type {Record<string, (run: Run) => string | number | null>} */
const KEYS = {
  name: (run) => run.name.toLowerCase(),
  health: (run) => (run.health === null ? null : HEALTHS.indexOf(run.health)),
  finding: (run) => run.finding?.message.toLowerCase() ?? null,
  step: (run) => run.step,
  reward: (run) => run.reward?.last ?? null,
  envs: (run) => run.train_envs.join() || null,
  attempts: (run) => run.attempts.length || null,
  job: (run) => (run.job ? Number(run.job.id) || String(run.job.id) : null),
  age: (run) => (run.created === null ? null : -run.created),
};
export const COLUMNS = Object.freeze(Object.keys(KEYS));
/** Columns of which the large is asked for first. */
const DESCENDING = Object.freeze(["step", "reward", "attempts", "job"]);

/** Whether a column begins with its largest. @param {string} column */
export function descendsFirst(column) {
  return DESCENDING.includes(column);
}

/** @param {readonly Run[]} runs @param {string} column @param {boolean} descending @returns {Run[]} */
export function sorted(runs, column, descending) {
  const key = KEYS[column] ?? KEYS.age;
  const sign = descending ? -1 : 1;
  return runs
    .map((run) => /** @type {const} */ ([key(run), run]))
    .sort(([a, one], [b, other]) => {
      if (a === null || b === null) return Number(a === null) - Number(b === null) || one.name.localeCompare(other.name);
      const order = typeof a === "string" || typeof b === "string" ? String(a).localeCompare(String(b), "en", { numeric: true }) : a - b;
      return sign * order || one.name.localeCompare(other.name);
    })
    .map(([, run]) => run);
}

/** Which of the values differ from the most frequent one; all do where none is more frequent than the others. @param {readonly unknown[]} values @returns {boolean[]} */
export function oddOnes(values) {
  const texts = values.map((value) => JSON.stringify(value));
  const count = (/** @type {string} */ text) => texts.filter((other) => other === text).length;
  const most = Math.max(...texts.map(count));
  const usual = texts.filter((text, index) => count(text) === most && texts.indexOf(text) === index);
  return texts.map((text) => usual.length > 1 || text !== usual[0]);
}
