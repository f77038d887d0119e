/** Colours and dashes of charts: the tokens' in the theme that is shown. A canvas cannot read CSS variables itself. */

import { color } from "../lib/theme.js";

/** Dashes of lines, pixels. The first is solid. */
export const DASHES = Object.freeze([[], [5, 3], [1.5, 2.5], [8, 3, 2, 3]]);

const NAMES = /** @type {const} */ (["c1", "c2", "c3", "c4", "c5", "c6", "grid", "axis", "line-2", "fg", "fg-2", "fg-3", "warn", "bad", "bg", "sans"]);

/** @typedef {Record<(typeof NAMES)[number], string> & {band: number, ghost: number}} Palette */

/** The colours of now. @returns {Palette} */
export function palette() {
  const colors = Object.fromEntries(NAMES.map((name) => [name, color(`--${name}`)]));
  return /** @type {Palette} */ ({ ...colors, band: Number(color("--band")), ghost: Number(color("--ghost")) });
}

/** @param {Palette} colors @param {number | undefined} slot 1 to 6 */
export function lineColor(colors, slot = 1) {
  return colors[/** @type {"c1"} */ (`c${slot}`)];
}
