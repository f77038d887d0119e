/** Points of lines: one common x for all lines of a chart, and what a line says at an x. Pure. */

/**
 * One x for all lines. A line that has no point at an x has `undefined` there, which breaks nothing; `null`, a value
 * that is not finite, breaks it.
 * @param {readonly {x: readonly number[]}[]} lines
 * @returns {{x: number[], places: number[][]}} `places`: where each point of each line went
 */
export function commonX(lines) {
  const first = lines[0]?.x ?? [];
  if (lines.every(({ x }) => x.length === first.length && x.every((value, index) => value === first[index]))) {
    const same = first.map((_, index) => index);
    return { x: [...first], places: lines.map(() => same) };
  }
  const x = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const place = new Map(x.map((value, index) => [value, index]));
  return { x, places: lines.map((line) => line.x.map((value) => /** @type {number} */ (place.get(value)))) };
}

/**
 * @param {readonly (number | null)[]} y
 * @param {readonly number[]} places
 * @param {number} length
 * @returns {(number | null | undefined)[]}
 */
export function spread(y, places, length) {
  const all = new Array(length).fill(undefined);
  y.forEach((value, index) => (all[places[index]] = value));
  return all;
}

/** The index of the x that is nearest; −1 without any. @param {readonly number[]} x ascending @param {number} at */
export function nearest(x, at) {
  if (x.length === 0) return -1;
  let [low, high] = [0, x.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < at) low = middle + 1;
    else high = middle;
  }
  return low > 0 && at - x[low - 1] <= x[low] - at ? low - 1 : low;
}

/** The index of the last value that is finite; −1 without any. @param {readonly (number | null)[]} y */
export function lastValue(y) {
  for (let index = y.length - 1; index >= 0; index -= 1) if (y[index] !== null) return index;
  return -1;
}

/**
 * The smallest and largest of the values whose x lies in a range; [Infinity, -Infinity] without any.
 * @param {readonly number[]} x @param {readonly (number | null)[]} y @param {number} from @param {number} to
 * @returns {[number, number]}
 */
export function extent(x, y, from, to) {
  let [low, high] = [Infinity, -Infinity];
  y.forEach((value, index) => {
    if (value === null || x[index] < from || x[index] > to) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  });
  return [low, high];
}
