/** The histogram of arrivals: its bars, and the time that a brush over them means. Pure. */

/** @typedef {{start: number, width: number, counts: readonly number[], errors?: readonly number[]}} Histogram */

/**
 * Bars of a drawing of `width` by `height` pixels.
 * @param {Histogram} histogram
 * @param {number} width
 * @param {number} height
 * @param {readonly [number, number] | null} chosen bins that are chosen, first and last; null: all are
 */
export function bars(histogram, width, height, chosen) {
  const most = Math.max(1, ...histogram.counts);
  const step = width / Math.max(1, histogram.counts.length);
  return histogram.counts.map((count, bin) => {
    // One episode among thousands is still seen.
    const tall = count === 0 ? 0 : Math.max(1.5, (count / most) * height);
    const wrong = ((histogram.errors?.[bin] ?? 0) / most) * height;
    return { bin, x: bin * step, width: Math.max(1, step - 1), y: height - tall, height: tall, errors: Math.min(tall, wrong), chosen: chosen === null || (bin >= chosen[0] && bin <= chosen[1]) };
  });
}

/** The bin below a pixel. @param {Histogram} histogram @param {number} x @param {number} width */
export function binAt(histogram, x, width) {
  const bins = histogram.counts.length;
  return Math.max(0, Math.min(bins - 1, Math.floor((x / Math.max(1, width)) * bins)));
}

/** The bins of a stretch of time; null when there is none. @param {Histogram} histogram @param {number | null} since @param {number | null} until @returns {[number, number] | null} */
export function binsOf(histogram, since, until) {
  if ((since === null && until === null) || !(histogram.width > 0)) return null;
  const last = histogram.counts.length - 1;
  const first = since === null ? 0 : Math.floor((since - histogram.start) / histogram.width + 1e-6);
  const end = until === null ? last : Math.ceil((until - histogram.start) / histogram.width - 1e-6) - 1;
  return [Math.max(0, first), Math.min(last, Math.max(first, end))];
}

/** The time of bins first to last, to the millisecond. @param {Histogram} histogram @param {number} first @param {number} last */
export function timeOf(histogram, first, last) {
  const [low, high] = first <= last ? [first, last] : [last, first];
  const edge = (/** @type {number} */ bin) => Math.round((histogram.start + bin * histogram.width) * 1000) / 1000;
  return { since: edge(low), until: edge(high + 1) };
}
