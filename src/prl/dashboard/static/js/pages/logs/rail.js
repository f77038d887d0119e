/** The right side: what a search found, by time, and how much of the log was written when. */

import { clock, count } from "../../lib/format.js";
import { html } from "../../lib/ui.js";
import { Icon } from "../../parts/icons.js";

/**
 * @param {{hits: readonly any[], at: number, done: boolean, total: number, scanned: number, onHit: (index: number) => void, onMore: () => void, error: Error | null}} properties
 */
export function Hits({ hits, at, done, total, scanned, onHit, onMore, error }) {
  return html`<section class="hits" aria-label="Hits">
    <header class="row"><h2>Hits</h2><span class="dim tn">${count(hits.length)}${done ? "" : "+"}</span><span class="grow"></span>
      <span class="small faint">${done ? "whole files" : total ? `${Math.round((100 * scanned) / total)}% searched` : ""}</span></header>
    ${error && html`<p class="state bad" role="alert"><${Icon} name="bad" size=${12} /> ${error.message}</p>`}
    <ol>
      ${hits.map(
        (hit, index) => html`<li key=${`${hit.file}:${hit.offset}`}><button type="button" class=${index === at ? "on" : ""} aria-current=${index === at ? "true" : undefined} title=${hit.component} onClick=${() => onHit(index)}>
          <time class="tn">${hit.time === null ? "" : clock(hit.time)}</time>
          <span class="clip">${around(hit.text.slice(0, hit.start))}<mark>${hit.text.slice(hit.start, hit.end)}</mark>${hit.text.slice(hit.end, hit.end + 80)}</span>
        </button></li>`,
      )}
    </ol>
    ${!done && html`<button type="button" class="btn quiet" onClick=${onMore}>Search on</button>`}
  </section>`;
}

/** The end of what stands before a match: the match is to be seen. @param {string} text */
const around = (text) => (text.length > 18 ? `\u2026${text.slice(-16)}` : text);

/**
 * The whole log as a column of bars: grey how much was written, blue hits, red incidents, a frame what is on the screen.
 * @param {{rail: any, hits: readonly any[], seen: [number | null, number | null], onTime: (time: number) => void}} properties
 */
export function Rail({ rail, hits, seen, onTime }) {
  if (!rail || rail.start === null || !rail.counts.length) return html`<section class="rail" aria-label="Whole log"><h2>Whole log</h2></section>`;
  const { start, end, counts } = rail;
  const span = Math.max(end - start, 1);
  const most = Math.max(...counts, 1);
  const y = (/** @type {number} */ time) => Math.min(100, Math.max(0, ((time - start) / span) * 100));
  const step = 100 / counts.length;
  const jump = (/** @type {MouseEvent} */ event) => {
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    onTime(start + ((event.clientY - box.top) / box.height) * span);
  };
  const [from, to] = seen;
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  return html`<section class="rail" aria-label="Whole log">
    <header class="row"><h2>Whole log</h2><span class="grow"></span><span class="small faint"><i class="key hit"></i>hit</span><span class="small bad"><i class="key inc"></i>incident</span></header>
    <div class="rr">
      <div class="rt tn faint">${ticks.map((tick) => html`<button type="button" key=${tick} class="tick" title="Jump there" onClick=${() => onTime(start + tick * span)}>${clock(start + tick * span).slice(0, 5)}</button>`)}</div>
      <svg viewBox="0 0 64 100" preserveAspectRatio="none" role="img" aria-label="How much was written when, from ${clock(start)} to ${clock(end)}" onClick=${jump}>
        ${counts.map((/** @type {number} */ bytes, /** @type {number} */ index) => bytes > 0 && html`<rect key=${index} class="bar" x="0" y=${index * step} width=${2 + 24 * Math.sqrt(bytes / most)} height=${step * 0.8} />`)}
        ${hits.slice(0, 2000).map((hit, index) => hit.time !== null && html`<rect key=${`h${index}`} class="hit" x="34" y=${y(hit.time) - 0.2} width="14" height="0.5" />`)}
        ${rail.incidents.map((/** @type {any} */ one, /** @type {number} */ index) => one.time !== null && html`<path key=${`i${index}`} class="inc" d=${`M52 ${y(one.time)} l12 -1.2 v2.4 Z`} />`)}
        ${from !== null && to !== null && html`<rect class="seen" x="0.5" y=${y(from)} width="63" height=${Math.max(1, y(to) - y(from))} />`}
      </svg>
      <p class="small dim">Grey: how much was written. The frame is what is on the screen. Click to jump.</p>
    </div>
  </section>`;
}
