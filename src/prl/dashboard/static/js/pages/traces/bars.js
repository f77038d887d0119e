/** Small bars in rows: where the time of an episode went, and its reward. Pure. */


/** Parts of an episode's time in order, with the class of their colour. */
export const PARTS = Object.freeze(/** @type {const} */ ([
  ["boot", "f4"],
  ["setup", "f5"],
  ["agent", "f1"],
  ["finalize", "f3"],
  ["scoring", "f2"],
]));

/**
 * @param {Record<string, number | null | undefined> | null} timing seconds of each part
 * @param {number | null} duration seconds in all, known even where the parts are not
 * @param {number} longest seconds that the whole width stands for
 * @param {number} width pixels
 * @returns {{part: string, fill: string, x: number, width: number, seconds: number}[]}
 */
export function timingBars(timing, duration, longest, width) {
  const scale = width / Math.max(longest, 1e-9);
  const known = PARTS.map(([part, fill]) => ({ part, fill: /** @type {string} */ (fill), seconds: Math.max(0, timing?.[part] ?? 0) })).filter(({ seconds }) => seconds > 0);
  if (known.length === 0) return duration === null || !(duration > 0) ? [] : [{ part: "whole", fill: "f0", x: 0, width: Math.max(1, Math.min(width, duration * scale)), seconds: duration }];
  let x = 0;
  return known.map(({ part, fill, seconds }) => {
    const wide = Math.max(1, Math.min(width - x, seconds * scale));
    const bar = { part, fill, x, width: Math.max(0, wide), seconds };
    x += wide;
    return bar;
  });
}

/** A round length of time that holds almost all: the whole width of a timing bar. @param {readonly (number | null | undefined)[]} durations */
export function longestOf(durations) {
  const known = durations.filter((value) => typeof value === "number" && value > 0).map(Number).sort((a, b) => a - b);
  if (known.length === 0) return 1;
  // One straggler does not make all others points.
  return Math.max(known[Math.floor((known.length - 1) * 0.97)], 1e-3) * 1.02;
}

/**
 * A reward's bar within the range of rewards, from zero: negative ones go left of it.
 * @param {number | null} reward
 * @param {readonly [number, number] | null} range of all episodes
 * @param {number} width pixels
 */
export function rewardBar(reward, range, width) {
  const low = Math.min(0, range?.[0] ?? 0);
  const high = Math.max(range?.[1] ?? 1, low < 0 ? 0 : 1e-9);
  const span = high - low || 1;
  const zero = (Math.abs(low) / span) * width;
  if (reward === null || !Number.isFinite(reward)) return { zero, x: zero, width: 0 };
  const at = ((Math.min(high, Math.max(low, reward)) - low) / span) * width;
  return { zero, x: Math.min(zero, at), width: Math.abs(at - zero) };
}

/** Stages of rollouts in flight in order, with the class of their colour. */
export const STAGES = Object.freeze(/** @type {const} */ ([
  ["pending", "0"],
  ["boot", "4"],
  ["setup", "5"],
  ["running", "1"],
  ["finalize", "3"],
  ["scoring", "2"],
  ["done", "0"],
  ["error", "6"],
]));

/**
 * The bar of what is in flight: one stretch a stage, none narrower than what can be seen.
 * @param {Record<string, number>} stages
 * @param {number} width
 */
export function stageBars(stages, width) {
  const known = STAGES.filter(([stage]) => (stages[stage] ?? 0) > 0);
  const total = known.reduce((sum, [stage]) => sum + stages[stage], 0);
  const free = width - 3 * known.length;
  let x = 0;
  return known.map(([stage, colour]) => {
    const wide = 2 + (stages[stage] / total) * Math.max(0, free);
    const bar = { stage, fill: `f${colour}`, x, width: wide };
    x += wide + 1;
    return bar;
  });
}
