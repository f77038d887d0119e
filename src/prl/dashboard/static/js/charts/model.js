/** What a chart draws, worked out from its lines. Pure. */

import { commonX, extent, lastValue, nearest, spread } from "./points.js";
import { runScale, valueScale } from "./scales.js";
import { medianDistance, smoothed } from "./smoothing.js";

/**
 * @typedef {object} Line  as the server sends it, with a look
 * @property {string} label
 * @property {string} producer
 * @property {string} key
 * @property {number[]} x
 * @property {(number | null)[]} y  null where it is not finite
 * @property {(number | null)[] | null} [low]
 * @property {(number | null)[] | null} [high]
 * @property {[number, string][]} [nonfinite]  x and "nan", "inf" or "-inf"
 * @property {number} [total]
 * @property {number} [color]  1 to 6
 * @property {number} [dash]  0 to 3
 * @property {string} [axis]  where x is something else than the page shows
 * @property {boolean} [old]  a timeline that a resume gave up
 */

/**
 * @typedef {object} Look
 * @property {string} axis
 * @property {number} smoothing
 * @property {boolean} log
 * @property {[number, number]} range  of x
 * @property {string} format
 * @property {boolean} fromZero
 * @property {{value: number, above: boolean} | null} limit
 * @property {number} width  of the plot, pixels
 * @property {number} height
 */

/**
 * @typedef {object} Drawn  a line as it is drawn; with a logarithmic axis all values are powers of ten
 * @property {Line} line
 * @property {(number | null)[]} main  smoothed, where smoothing is on
 * @property {(number | null)[] | null} raw  the ghost below it
 * @property {(number | null)[] | null} low
 * @property {(number | null)[] | null} high
 * @property {number} apart  median distance of its points
 */

/**
 * @typedef {object} Model
 * @property {number[]} x
 * @property {Drawn[]} lines
 * @property {(number | null | undefined)[][]} columns  per line: the ghost where there is one, then the main line
 * @property {import("./scales.js").Scale} xScale
 * @property {import("./scales.js").Scale} yScale
 * @property {number | null} limit
 * @property {boolean} log
 */

const PIXELS_A_TICK = 64;
const PIXELS_AN_INTERVAL = 33;

/**
 * @param {readonly Line[]} lines
 * @param {Look} look
 * @returns {Model}
 */
export function modelOf(lines, look) {
  const drawn = lines.map((line) => drawnLine(line, look));
  const { x, places } = commonX(lines);
  const columns = drawn.flatMap(({ main, raw }, index) => [...(raw ? [raw] : []), main].map((values) => spread(values, places[index], x.length)));
  const [from, to] = look.range;
  let [low, high] = [Infinity, -Infinity];
  for (const { line, main, raw, low: bottom, high: top } of drawn) {
    for (const values of [raw ?? main, bottom, top]) {
      const [least, most] = values ? extent(line.x, values, from, to) : [Infinity, -Infinity];
      [low, high] = [Math.min(low, least), Math.max(high, most)];
    }
  }
  const limit = look.limit ? power(look.limit.value, look.log) : null;
  const seen = limit !== null && isNear(limit, low, high, look);
  if (seen) [low, high] = [Math.min(low, limit), Math.max(high, limit)];
  return {
    x,
    lines: drawn,
    columns,
    xScale: runScale(from, to, look.axis, Math.max(2, Math.floor(look.width / PIXELS_A_TICK))),
    yScale: valueScale(low, high, { ...look, intervals: Math.max(2, Math.floor(look.height / PIXELS_AN_INTERVAL)) }),
    limit: seen ? limit : null,
    log: look.log,
  };
}

/** @param {Line} line @param {Look} look @returns {Drawn} */
function drawnLine(line, { smoothing, log }) {
  const scaled = (/** @type {(number | null)[] | null | undefined} */ values) => (values ? values.map((value) => (value === null ? null : power(value, log))) : null);
  const raw = /** @type {(number | null)[]} */ (scaled(line.y));
  // The mean of values, not of their logarithms, is what smoothing says.
  const main = smoothing > 0 && !line.old ? /** @type {(number | null)[]} */ (scaled(smoothed(line.x, line.y, smoothing))) : raw;
  return { line, main, raw: main === raw ? null : raw, low: scaled(line.low), high: scaled(line.high), apart: medianDistance(line.x) };
}

/** A value on the axis; none on a logarithmic one for what is not positive. @param {number} value @param {boolean} log */
function power(value, log) {
  if (!log) return value;
  return value > 0 ? Math.log10(value) : null;
}

/** Whether a limit would leave the lines room to be seen. @param {number} limit @param {number} low @param {number} high @param {Look} look */
function isNear(limit, low, high, look) {
  if (!(low <= high)) return false;
  const base = look.fromZero && !look.log ? Math.min(0, low) : low;
  const span = Math.max(high - base, Math.abs(high) * 0.1, 1e-12);
  return limit >= base - span && limit <= high + 1.5 * span;
}

/**
 * What a line says at an x: its value (as the server sent it, smoothed where smoothing is on), the word for one that
 * is not finite, or that it has none there.
 * @param {Drawn} drawn
 * @param {number | null} at  null: its last value
 * @param {boolean} log
 * @returns {{x: number | null, value: number | null, place: number | null, word: string | null}} `place`: on the axis
 */
export function reading({ line, main, apart }, at, log) {
  const none = { x: null, value: null, place: null, word: null };
  const index = at === null ? lastValue(main) : nearest(line.x, at);
  if (at !== null) {
    const broken = (line.nonfinite ?? []).find(([x]) => Math.abs(x - at) < Math.max(0.5 * apart, 1e-9) || x === at);
    if (broken) return { ...none, x: broken[0], word: broken[1] };
    if (index < 0 || Math.abs(line.x[index] - at) > 1.01 * apart) return none;
  }
  if (index < 0) return none;
  const place = main[index];
  return { x: line.x[index], value: place === null ? null : log ? 10 ** place : place, place, word: null };
}

/** The range of x over lines; null without a point. @param {readonly {x: readonly number[]}[]} lines @returns {[number, number] | null} */
export function rangeOf(lines) {
  let [from, to] = [Infinity, -Infinity];
  for (const { x } of lines) {
    if (x.length === 0) continue;
    from = Math.min(from, x[0]);
    to = Math.max(to, x[x.length - 1]);
  }
  return from <= to ? [from, to] : null;
}

/** Part of an axis that may be empty before the first point, for the axis to begin at 0. */
const BEFORE_FIRST = 0.05;

/** The range of an axis for lines: theirs, from 0 where they begin near it. @param {readonly {x: readonly number[]}[]} lines @returns {[number, number]} */
export function axisRange(lines) {
  const [from, to] = rangeOf(lines) ?? [0, 1];
  return [from > 0 && from <= BEFORE_FIRST * to ? 0 : from, to];
}

/**
 * Lines with their looks: one colour and dash a line, or, when runs are compared, one colour a run and one dash a line.
 * @param {readonly Line[]} lines
 * @param {number} [run] index of the run
 * @param {boolean} [compared]
 * @returns {Line[]}
 */
export function withLooks(lines, run = 0, compared = false) {
  return lines.map((line, index) => ({ ...line, color: ((compared ? run : index) % 6) + 1, dash: (compared && lines.length === 1 ? run : index) % 4 }));
}
