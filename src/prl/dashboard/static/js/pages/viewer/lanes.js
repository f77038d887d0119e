/** The timing of a trace as a drawing: lanes of spans on one axis, and where the policy changed. Pure. */

/** The class of a span's colour, by its kind. */
const FILLS = Object.freeze(/** @type {Record<string, string>} */ ({ boot: "f4", setup: "f5", agent: "fl", model: "f1", tool: "f6", environment: "f5", finalize: "f3", scoring: "f2", failed: "fb" }));

/**
 * @typedef {{kind: string, start: number | null, end: number | null, node?: number | null, label?: string}} Span
 * @typedef {{label: string, kind: string, spans: readonly Span[]}} Lane
 */

/** The time from the first span to the last; null when nothing has a time. @param {readonly Lane[]} lanes @returns {[number, number] | null} */
export function extent(lanes) {
  const times = lanes.flatMap(({ spans }) => spans.flatMap(({ start, end }) => [start, end ?? start])).filter((time) => typeof time === "number");
  if (times.length === 0) return null;
  const [low, high] = [Math.min(...times), Math.max(...times)];
  return [low, high > low ? high : low + 1];
}

/**
 * Round marks along an axis from 0 to `seconds`, about one in `every` pixels.
 * @param {number} seconds
 * @param {number} width
 * @param {number} [every]
 */
export function ticks(seconds, width, every = 96) {
  const wanted = seconds / Math.max(1, Math.floor(width / every));
  const rounds = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
  const step = rounds.find((round) => round >= wanted) ?? Math.ceil(wanted / 86400) * 86400;
  const marks = [];
  for (let nth = 0; nth * step <= seconds * 1.0001; nth += 1) marks.push(nth * step);
  return marks;
}

/**
 * @param {readonly Lane[]} lanes
 * @param {readonly {version: number, time: number}[]} policies
 * @param {number} width pixels
 * @param {{left?: number, top?: number, row?: number}} [sizes]
 */
export function drawing(lanes, policies, width, { left = 124, top = 16, row = 22 } = {}) {
  const range = extent(lanes);
  if (range === null) return null;
  const [start, end] = range;
  const scale = Math.max(1, width - left - 12) / (end - start);
  const x = (/** @type {number} */ time) => left + (time - start) * scale;
  const rows = lanes.map(({ label, spans }, index) => ({
    label,
    y: top + index * row,
    spans: spans.flatMap((span) => {
      if (span.start === null || !Number.isFinite(span.start)) return [];
      const until = span.end ?? end;
      return [{ ...span, x: x(span.start), width: Math.max(1.5, (until - span.start) * scale), fill: FILLS[span.kind] ?? "f0", seconds: until - span.start, open: span.end === null }];
    }),
  }));
  return {
    rows,
    height: top + lanes.length * row + 20,
    seconds: end - start,
    ticks: ticks(end - start, width - left).map((seconds) => ({ seconds, x: left + seconds * scale })),
    policies: policies.filter(({ time }) => time > start && time < end).map(({ version, time }) => ({ version, x: x(time) })),
    x,
    start,
  };
}

/** Seconds of all spans of some kinds together. @param {readonly Lane[]} lanes @param {readonly string[]} kinds */
export function secondsOf(lanes, kinds) {
  let sum = 0;
  for (const { spans } of lanes) for (const { kind, start, end } of spans) if (kinds.includes(kind) && start !== null && end !== null) sum += end - start;
  return sum;
}
