/** What happened on the way, on the axis that is shown. Pure. */

/**
 * @typedef {object} Marks  as the server sends them
 * @property {{attempt: number, step: number | null, time: number | null, resumed_from: number | null}[]} attempts
 * @property {{step: number, state?: string, time: number | null}[]} checkpoints
 * @property {{key: string, limit: number, above: boolean}[]} [alarms]
 * @property {number[]} [evals]
 */

/**
 * @param {Marks | null | undefined} marks
 * @param {string} axis
 * @param {number | null} start  Unix seconds of the time axis' zero
 * @returns {import("./plot.js").Marks} none on the axis of tokens, where nothing says where they would be
 */
export function placesOf(marks, axis, start) {
  if (!marks || axis === "tokens") return { attempts: [], checkpoints: [] };
  const at = (/** @type {{step: number | null, time: number | null}} */ mark) =>
    axis === "step" ? mark.step : mark.time === null || start === null ? null : mark.time - start;
  const known = (/** @type {(number | null)[]} */ places) => /** @type {number[]} */ (places.filter((place) => place !== null));
  // The first attempt begins where the axis does.
  return { attempts: known(marks.attempts.slice(1).map(at)), checkpoints: known(marks.checkpoints.map(at)) };
}

/**
 * Whether a line lies on the axis of the page: a series that has no place there comes on the one that it has.
 * @param {{axis?: string}} line @param {string} axis
 */
export function isOn(line, axis) {
  return line.axis === undefined || line.axis === axis;
}

/** The zero of the time axis: when the first attempt began, else the first time there is. @param {Marks | null | undefined} marks @param {readonly {x: readonly number[]}[]} lines */
export function startOf(marks, lines) {
  const firsts = [...(marks?.attempts ?? []).map(({ time }) => time), ...lines.map(({ x }) => x[0])].filter((time) => time !== null && time !== undefined);
  return firsts.length ? Math.min(.../** @type {number[]} */ (firsts)) : null;
}

/**
 * Lines with x in seconds since `start`.
 * @template {{x: number[], nonfinite?: [number, string][]}} L
 * @param {L} line @param {number} start @returns {L}
 */
export function sinceStart(line, start) {
  return { ...line, x: line.x.map((time) => time - start), nonfinite: line.nonfinite?.map(([time, word]) => /** @type {[number, string]} */ ([time - start, word])) };
}

/**
 * What is to say of a step: its attempt where there are several, and whether it has a checkpoint.
 * @param {Marks | null | undefined} marks @param {number} step
 */
export function stepWords(marks, step) {
  const attempt = (marks?.attempts ?? []).findLast((one) => one.step !== null && one.step <= step);
  const words = [];
  if (attempt && (marks?.attempts.length ?? 0) > 1) words.push(attempt.step === step && attempt.resumed_from !== null ? `attempt ${attempt.attempt} resumed here` : `attempt ${attempt.attempt}`);
  if (marks?.checkpoints.some((one) => one.step === step)) words.push("checkpoint");
  return words.join(", ");
}
