/** Steps done, as a bar with a tick at each checkpoint. */

import { html } from "../lib/ui.js";

const WIDTH = 300;

/**
 * @param {{step: number | null, max: number | null, checkpoints?: readonly number[], look?: "" | "bad" | "idle"}} properties
 */
export function Steps({ step, max, checkpoints = [], look = "" }) {
  const whole = max ?? 0;
  const at = (/** @type {number} */ value) => (whole > 0 ? Math.min(1, Math.max(0, value / whole)) * WIDTH : 0);
  return html`<svg class="steps ${look}" viewBox="0 0 ${WIDTH} 6" preserveAspectRatio="none" aria-hidden="true" focusable="false">
    <rect class="bg" width=${WIDTH} height="4" y="1" rx="1" />
    <rect class="fg" width=${at(step ?? 0)} height="4" y="1" rx="1" />
    ${whole > 0 && checkpoints.map((checkpoint) => html`<rect key=${checkpoint} class="ck" x=${Math.min(WIDTH - 2, at(checkpoint))} y="0" width="2" height="6" />`)}
  </svg>`;
}
