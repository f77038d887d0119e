/** Smoothing of a line, which is drawn over the raw one, never in its place. Pure. */

/** The choices of the toolbar. */
export const SMOOTHINGS = Object.freeze([0, 0.5, 0.8, 0.9, 0.95, 0.99]);

/**
 * An exponential mean that knows how far apart points are: a value's weight falls by the factor `smoothing` over the
 * median distance of two points, so that a gap in the record forgets as much as the points that are missing would
 * have. Without bias towards the first value: the weights are divided by their sum.
 *
 *     m_i = sum_j w_ij y_j / sum_j w_ij,   w_ij = smoothing ** ((x_i - x_j) / median distance),   j <= i
 *
 * @param {readonly number[]} x ascending
 * @param {readonly (number | null)[]} y null where there is no finite value: it stays so, and has no weight
 * @param {number} smoothing 0 (none) to below 1
 * @returns {(number | null)[]}
 */
export function smoothed(x, y, smoothing) {
  if (!(smoothing > 0)) return [...y];
  const apart = medianDistance(x);
  let sum = 0;
  let weights = 0;
  let last = NaN;
  return y.map((value, index) => {
    if (value === null) return null;
    const keep = weights === 0 ? 0 : smoothing ** ((x[index] - last) / apart);
    sum = sum * keep + value;
    weights = weights * keep + 1;
    last = x[index];
    return sum / weights;
  });
}

/** The median distance of neighbours that are apart; 1 without any. @param {readonly number[]} x */
export function medianDistance(x) {
  if (x.length < 2) return 1;
  const distances = x.slice(1).map((value, index) => value - x[index]).filter((distance) => distance > 0).sort((a, b) => a - b);
  return distances[distances.length >> 1] || 1;
}
