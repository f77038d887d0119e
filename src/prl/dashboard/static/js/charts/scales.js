/** Ranges of axes and the values that are written beside them. Pure. */

import { bytes, duration, number } from "../lib/format.js";

/**
 * @typedef {object} Scale
 * @property {number} min
 * @property {number} max
 * @property {number[]} ticks
 * @property {(value: number) => string} text  of a tick
 */

const MINUS = "\u2212";
const MANTISSAS = [1, 2, 2.5, 5, 10];

/**
 * The smallest round step (1, 2, 2.5 or 5 times a power of ten) that is not below `least`.
 * @param {number} least greater than 0
 * @param {boolean} [whole] whole numbers only
 */
export function roundStep(least, whole = false) {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const mantissa of MANTISSAS) {
    const step = mantissa * power;
    if (step >= least * (1 - 1e-9) && !(whole && !Number.isInteger(step))) return step;
  }
  return whole ? Math.max(1, 10 * power) : 10 * power;
}

/**
 * The multiples of `step` from `min` to `max`, both included.
 * @param {number} min @param {number} max @param {number} step
 */
export function multiples(min, max, step) {
  const ticks = [];
  const last = Math.floor(max / step + 1e-6);
  for (let index = Math.ceil(min / step - 1e-6); index <= last && ticks.length < 100; index += 1) ticks.push(rounded(index * step, step));
  return ticks;
}

/** Take away what a sum of fractions adds: 0.30000000000000004 is 0.3. @param {number} value @param {number} step */
function rounded(value, step) {
  const digits = Math.max(0, Math.min(20, 1 - Math.floor(Math.log10(step)) + 1));
  return Number(value.toFixed(digits)) + 0;
}

/**
 * The range of a value axis: it begins and ends at ticks, so that no line touches the edge of nothing.
 * @param {number} low smallest value @param {number} high largest value
 * @param {{fromZero?: boolean, intervals?: number, format?: string, log?: boolean}} [options] `intervals`: the most of
 *   them; with `log` the values are powers of ten, and so is the scale
 * @returns {Scale}
 */
export function valueScale(low, high, { fromZero = false, intervals = 3, format = "number", log = false } = {}) {
  if (!(low <= high)) [low, high] = [0, 1];
  if (log) return logScale(low, high, intervals, format);
  if (fromZero) [low, high] = [Math.min(0, low), Math.max(0, high)];
  if (low === high) [low, high] = low === 0 ? [0, 1] : [Math.min(0, low), Math.max(0, high)];
  const unit = format === "bytes" ? 1024 ** Math.max(0, Math.floor(Math.log(Math.max(1, Math.abs(low), Math.abs(high))) / Math.log(1024))) : 1;
  const whole = (format === "count" || format === "tokens") && high - low >= 1;
  let step = roundStep((high - low) / unit / intervals, whole && unit === 1);
  const count = () => Math.ceil(high / unit / step - 1e-9) - Math.floor(low / unit / step + 1e-9);
  while (count() > intervals) step = roundStep(step * 1.01, whole && unit === 1);
  const min = Math.floor(low / unit / step + 1e-9) * step;
  const max = Math.ceil(high / unit / step - 1e-9) * step;
  const ticks = multiples(min, max, step).map((tick) => tick * unit);
  return { min: ticks[0], max: ticks[ticks.length - 1], ticks, text: tickText(step * unit, format) };
}

/**
 * @param {number} low log10 of the smallest value @param {number} high @param {number} intervals @param {string} format
 * @returns {Scale}
 */
function logScale(low, high, intervals, format) {
  const text = (/** @type {number} */ tick) => plain(10 ** tick, format);
  if (high - low < 1) {
    const mantissas = [1, 2, 5];
    const all = [];
    for (let power = Math.floor(low) - 1; power <= Math.ceil(high); power += 1) all.push(...mantissas.map((mantissa) => power + Math.log10(mantissa)));
    const first = all.filter((tick) => tick <= low + 1e-9).length - 1;
    const last = all.findIndex((tick) => tick >= high - 1e-9);
    const ticks = all.slice(first, Math.max(last, first + 1) + 1);
    return { min: ticks[0], max: ticks[ticks.length - 1], ticks, text };
  }
  const step = Math.max(1, Math.ceil((Math.ceil(high) - Math.floor(low)) / intervals));
  const min = Math.floor(low);
  const max = min + Math.ceil((high - min - 1e-9) / step) * step;
  return { min, max, ticks: multiples(min, max, 1).filter((tick) => (tick - min) % step === 0), text };
}

/** @param {number} value @param {string} format */
function plain(value, format) {
  if (format === "bytes") return bytes(value);
  if (format === "seconds") return duration(value);
  if (format === "percent") return `${short(value * 100)}%`;
  return short(value);
}

/** A number in few characters: 1.5M, 20k, 0.002, 1e−7. @param {number} value */
export function short(value) {
  const size = Math.abs(value);
  const sign = value < 0 ? MINUS : "";
  for (const [unit, name] of /** @type {const} */ ([[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e4, "k"]])) {
    const scaled = size / (unit === 1e4 ? 1e3 : unit);
    if (size >= unit) return `${sign}${Number(scaled.toPrecision(4))}${name}`;
  }
  if (size !== 0 && size < 1e-4) return sign + size.toExponential(1).replace(".0e", "e").replace("e-", `e${MINUS}`);
  return number(Number(value.toPrecision(6))).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

/** How ticks that lie `step` apart are written. @param {number} step @param {string} format @returns {(tick: number) => string} */
function tickText(step, format) {
  if (format === "bytes") return (tick) => (tick === 0 ? "0" : bytes(tick).replace(".0 ", " "));
  if (format === "seconds") return (tick) => (tick === 0 ? "0" : duration(tick));
  const scale = format === "percent" ? 100 : 1;
  const size = step * scale;
  const digits = Math.max(0, Math.min(8, -Math.floor(Math.log10(size) + 1e-9) + (/^(25|2\.5)/.test(String(Number(size.toPrecision(3))).replace(/^0\.0*/, "")) && size < 10 ? 1 : 0)));
  return (tick) => {
    const value = tick * scale;
    if (Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-4)) return short(value) + (scale === 100 ? "%" : "");
    const text = Math.abs(value).toLocaleString("en-US", { minimumFractionDigits: 0, maximumFractionDigits: digits });
    return `${value < 0 ? MINUS : ""}${text}${scale === 100 ? "%" : ""}`;
  };
}

/** Seconds between two ticks of a time axis. */
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 345600, 604800];

/**
 * The range of a step, time or token axis: exactly from `min` to `max`, with round ticks inside.
 * @param {number} min @param {number} max @param {string} axis "step", "time" (seconds since the start) or "tokens"
 * @param {number} most ticks
 * @returns {Scale}
 */
export function runScale(min, max, axis, most) {
  if (!(max > min)) [min, max] = Number.isFinite(min) ? [min - 0.5, min + 0.5] : [0, 1];
  if (axis === "time") {
    const least = (max - min) / most;
    const step = TIMES.find((seconds) => seconds >= least) ?? Math.ceil(least / 604800) * 604800;
    return { min, max, ticks: multiples(min, max, step), text: (tick) => timeText(tick, step) };
  }
  const step = roundStep((max - min) / most, true);
  return { min, max, ticks: multiples(min, max, step), text: (tick) => (axis === "tokens" ? short(tick) : tick >= 1e6 ? short(tick) : number(tick)) };
}

/** @param {number} seconds @param {number} step between two ticks */
function timeText(seconds, step) {
  if (seconds === 0) return "0";
  if (step >= 86400) return `${Math.round(seconds / 86400)} d`;
  const hours = Math.floor(seconds / 3600 + 1e-9);
  const minutes = Math.round((seconds - hours * 3600) / 60);
  if (step >= 3600) return hours >= 24 && hours % 24 === 0 ? `${hours / 24} d` : `${hours} h`;
  if (step >= 60) return hours ? `${hours}:${String(minutes).padStart(2, "0")} h` : `${minutes} min`;
  const rest = Math.round(seconds % 60);
  return seconds < 60 ? `${rest} s` : `${Math.floor(seconds / 60)}:${String(rest).padStart(2, "0")}`;
}
