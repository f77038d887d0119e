/** Times: relative, with the exact one on hover. */

import { age, moment } from "../lib/format.js";
import { useNow } from "../lib/hooks.js";
import { html } from "../lib/ui.js";

/** How long ago. @param {{time: number | null, suffix?: string}} properties `time` in Unix seconds */
export function Ago({ time, suffix = "" }) {
  const now = useNow(time !== null && Date.now() / 1000 - time < 120 ? 1 : 30);
  if (time === null) return html`<span class="dim">n/a</span>`;
  return html`<time class="tn" datetime=${new Date(time * 1000).toISOString()} title=${moment(time)}>${age(now - time)}${suffix}</time>`;
}
