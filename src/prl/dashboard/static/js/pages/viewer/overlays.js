/**
 * What a token's colour says: the overlays, their scales and the class of each value. Pure.
 *
 * A scale has nine classes, told apart by eight bounds, so that tokens need no inline style. Fixed scales are the same
 * in all traces; "this trace" spreads the nine over the values of the branch on the screen.
 */

import { number } from "../../lib/format.js";

/**
 * @typedef {object} Overlay
 * @property {string} id  as in the address
 * @property {string} label
 * @property {string | null} stream  of the server's token streams
 * @property {"none" | "up" | "down" | "both" | "mask"} form  grows up from 0, down from 0, both ways, or a mask
 * @property {string} ramp  prefix of the classes
 * @property {readonly number[]} bounds  of the fixed scale, by size
 * @property {string} unit
 * @property {boolean} log  whether "this trace" spreads by order of size
 * @property {number | null} threshold  from which size on tokens are marked; null: the server knows
 * @property {string} marked  what `n` goes to, of a count: "11 tokens {marked}"
 */

/** @type {readonly Overlay[]} */
export const OVERLAYS = Object.freeze([
  { id: "none", label: "None", stream: null, form: "none", ramp: "", bounds: [], unit: "", log: false, threshold: null, marked: "" },
  { id: "advantage", label: "Advantage", stream: "advantage", form: "both", ramp: "", bounds: [0.1, 0.5, 1], unit: "", log: false, threshold: 1e-12, marked: "not zero" },
  { id: "trainer_logprob", label: "Trainer log-prob", stream: "trainer_logprob", form: "down", ramp: "e", bounds: [0.01, 0.05, 0.1, 0.3, 0.7, 1.5, 3, 6], unit: "nats", log: false, threshold: 3, marked: "below \u22123" },
  { id: "entropy", label: "Entropy", stream: "entropy", form: "up", ramp: "e", bounds: [0.05, 0.1, 0.2, 0.4, 0.8, 1.2, 2, 3], unit: "nats", log: false, threshold: 2, marked: "above 2" },
  { id: "mismatch_kl", label: "Mismatch KL", stream: "mismatch_kl", form: "up", ramp: "k", bounds: [1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 1], unit: "nats, log scale", log: true, threshold: 0.03, marked: "above 0.03" },
  { id: "stable", label: "Stable mask", stream: "stable", form: "mask", ramp: "m", bounds: [], unit: "", log: false, threshold: null, marked: "masked" },
  { id: "loss_mask", label: "Loss mask", stream: "loss_mask", form: "mask", ramp: "m", bounds: [], unit: "", log: false, threshold: 0.5, marked: "in the loss" },
  { id: "content_mask", label: "Content", stream: "content_mask", form: "mask", ramp: "m", bounds: [], unit: "", log: false, threshold: 0.5, marked: "of the content" },
]);

/** Overlays of which prompts have values too: their tokens are drawn for all messages. */
export const OF_ALL_MESSAGES = Object.freeze(["loss_mask", "content_mask"]);

/** The values of `stable`: counted by the loss, or left out and why. */
export const STABLE = Object.freeze(/** @type {Record<string, {name: string, label: string}>} */ ({
  "0": { name: "m-in", label: "in the loss" },
  "1": { name: "m-hi", label: "masked, above bound" },
  "-1": { name: "m-lo", label: "masked, below bound" },
  "2": { name: "m-un", label: "masked, side unknown" },
}));

/** @param {string} id */
export function overlayOf(id) {
  return OVERLAYS.find((overlay) => overlay.id === id) ?? OVERLAYS[0];
}

/**
 * The overlay that is shown: the named one, if the trace has it. A place that names a token, but none, shows the first
 * that there is, for the sake of the token.
 * @param {string} named
 * @param {Record<string, string>} unavailable
 * @param {boolean} token
 */
export function shownOverlay(named, unavailable, token) {
  const has = (/** @type {Overlay} */ { stream }) => stream !== null && !(stream in unavailable);
  const overlay = overlayOf(named);
  if (overlay.stream !== null) return has(overlay) ? overlay : OVERLAYS[0];
  if (named !== "" || !token) return OVERLAYS[0];
  return ["mismatch_kl", "trainer_logprob", "entropy", "advantage", "loss_mask"].map(overlayOf).find(has) ?? OVERLAYS[0];
}

/** The bounds of an overlay's scale. @param {Overlay} overlay @param {"fixed" | "trace"} scale @param {{min: number | null, max: number | null} | null} range of the branch @returns {readonly number[]} */
export function boundsOf(overlay, scale, range) {
  if (scale === "fixed" || overlay.bounds.length === 0 || !range || range.max === null || range.min === null) return overlay.bounds;
  const steps = overlay.bounds.length + 1;
  const most = overlay.form === "down" ? -range.min : overlay.form === "both" ? Math.max(range.max, -range.min) : range.max;
  if (!(most > 0)) return overlay.bounds;
  if (!overlay.log) return overlay.bounds.map((_, index) => (most * (index + 1)) / steps);
  const least = Math.max(range.min, most * 1e-6);
  if (least >= most) return overlay.bounds.map((_, index) => most * 10 ** (index + 1 - steps));
  return overlay.bounds.map((_, index) => least * (most / least) ** ((index + 1) / steps));
}

/** How many bounds a size reaches. @param {readonly number[]} bounds @param {number} size */
export function step(bounds, size) {
  let reached = 0;
  while (reached < bounds.length && size >= bounds[reached]) reached += 1;
  return reached;
}

/**
 * The class of a value; "" where there is none.
 * @param {Overlay} overlay
 * @param {readonly number[]} bounds
 * @param {number | null | undefined} value
 */
export function classOf(overlay, bounds, value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (overlay.form === "mask") return overlay.id === "stable" ? (STABLE[String(value)]?.name ?? "") : value >= 0.5 ? "m-in" : "m-out";
  if (overlay.form === "both") return value === 0 ? "z0" : `${value > 0 ? "p" : "n"}${step(bounds, Math.abs(value)) + 1}`;
  if (overlay.form === "none") return "";
  return `${overlay.ramp}${step(bounds, overlay.form === "down" ? -value : value)}`;
}

/** Where on the scale a value stands, 0 to 1: the height of its bar in the small map. @param {Overlay} overlay @param {readonly number[]} bounds @param {number | null} value */
export function heightOf(overlay, bounds, value) {
  if (value === null || Number.isNaN(value)) return 0;
  if (overlay.form === "mask") return value !== 0 ? 1 : 0.15;
  const size = overlay.form === "down" ? -value : overlay.form === "both" ? Math.abs(value) : value;
  const reached = step(bounds, size);
  const [low, high] = [reached === 0 ? 0 : bounds[reached - 1], bounds[reached] ?? Infinity];
  const within = Number.isFinite(high) ? (size - low) / (high - low) : 1 - low / Math.max(size, low);
  return Math.min(1, Math.max(0.04, (reached + Math.min(1, Math.max(0, within))) / (bounds.length + 1)));
}

/**
 * The legend: classes with the label of the bound at their left edge, or a word each.
 * @param {Overlay} overlay
 * @param {readonly number[]} bounds
 * @returns {{name: string, label: string}[]}
 */
export function legendOf(overlay, bounds) {
  if (overlay.id === "stable") return ["0", "1", "-1"].map((value) => STABLE[value]);
  if (overlay.form === "mask") return [{ name: "m-in", label: overlay.marked }, { name: "m-out", label: "not" }];
  if (overlay.form === "both") {
    const right = bounds.map((_, index) => ({ name: `p${index + 1}`, label: index === 0 ? "0" : short(bounds[index - 1]) }));
    const top = { name: `p${bounds.length + 1}`, label: short(bounds[bounds.length - 1]) };
    const left = [...bounds].reverse().map((bound, index) => ({ name: `n${bounds.length - index}`, label: short(-bound) }));
    return [{ name: `n${bounds.length + 1}`, label: "" }, ...left, { name: "z0", label: "" }, ...right, top];
  }
  const sign = overlay.form === "down" ? -1 : 1;
  return [...Array(bounds.length + 1).keys()].map((index) => ({ name: `${overlay.ramp}${index}`, label: index === 0 ? "" : short(sign * bounds[index - 1]) }));
}

/** A bound in few characters. @param {number} value */
export function short(value) {
  const size = Math.abs(value);
  const text = size !== 0 && size < 0.01 ? Number(size.toPrecision(1)).toExponential().replace("e-", "e-") : String(Number(size.toPrecision(2)));
  return value < 0 ? `\u2212${text}` : text;
}

/** A value of a stream for people. @param {string} stream @param {number | null | undefined} value */
export function valueText(stream, value) {
  if (value === null || value === undefined) return "n/a";
  if (stream === "advantage" && value > 0) return `+${number(value)}`;
  return number(value);
}
