/** The path of a small line. Pure. */

const EDGE = 3;

/**
 * @param {readonly (number | null)[]} values null breaks the line
 * @param {number} width @param {number} height pixels
 * @returns {{path: string, end: [number, number] | null}} `end`: the last value's place; null without one
 */
export function sparkPath(values, width, height) {
  const known = values.filter((value) => value !== null && Number.isFinite(value));
  if (known.length === 0) return { path: "", end: null };
  const [low, high] = [Math.min(.../** @type {number[]} */ (known)), Math.max(.../** @type {number[]} */ (known))];
  const across = (width - EDGE - 1) / Math.max(1, values.length - 1);
  let path = "";
  /** @type {[number, number] | null} */
  let end = null;
  let broken = true;
  values.forEach((value, index) => {
    if (value === null || !Number.isFinite(value)) {
      broken = true;
      return;
    }
    const share = high > low ? (value - low) / (high - low) : 0.5;
    end = [Number((1 + index * across).toFixed(1)), Number((height - EDGE - share * (height - 2 * EDGE)).toFixed(1))];
    path += `${broken ? "M" : "L"}${end[0]} ${end[1]}`;
    broken = false;
  });
  return { path, end };
}
