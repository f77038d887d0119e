/** A line so small that it has no axis: where it goes, with a dot at its end. */

import { html } from "../lib/ui.js";
import { sparkPath } from "./sparkline.js";

/** @param {{values: readonly (number | null)[], width?: number, height?: number}} properties */
export function Spark({ values, width = 64, height = 26 }) {
  const { path, end } = sparkPath(values, width, height);
  if (!end) return html`<svg class="spark" width=${width} height=${height} aria-hidden="true"></svg>`;
  return html`<svg class="spark" width=${width} height=${height} viewBox="0 0 ${width} ${height}" aria-hidden="true" focusable="false">
    <path d=${path} /><circle cx=${end[0]} cy=${end[1]} r="2.2" />
  </svg>`;
}
