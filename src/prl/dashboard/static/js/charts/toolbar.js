/** What all pages of charts can set: axis, smoothing, scale, compared runs, and where the cursor stands. */

import { useData } from "../lib/data.js";
import { useNavigation } from "../lib/location.js";
import { html, useState } from "../lib/ui.js";
import { Check, Choice, Menu, Search } from "../parts/controls.js";
import { Icon } from "../parts/icons.js";
import { shortNames } from "./labels.js";
import { Readout } from "./readout.js";
import { SMOOTHINGS } from "./smoothing.js";
import { AXES, MOST_COMPARED } from "./state.js";

/**
 * @param {object} properties
 * @param {import("./state.js").ChartState} properties.state
 * @param {[number, number]} properties.range
 * @param {import("./marks.js").Marks | null} properties.marks
 * @param {number | null} properties.start
 * @param {{current: HTMLElement | null}} properties.slider
 * @param {boolean} [properties.hint]  whether the keys are told
 * @param {any} [properties.more]  more controls, after smoothing
 */
export function Toolbar({ state, range, marks, start, slider, hint = true, more }) {
  return html`<div class="toolbar tools">
    <${Choice} label="X axis" value=${state.axis} options=${AXES} onChange=${state.setAxis} />
    <${Smoothing} state=${state} />
    ${more}
    <${Compare} state=${state} />
    <${Readout} axis=${state.axis} range=${range} marks=${marks} start=${start} slider=${slider} hint=${hint} />
    ${state.zoom && html`<button type="button" class="btn quiet" onClick=${() => state.setZoom(null)}><${Icon} name="close" />Zoom</button>`}
    <${Legend} />
  </div>`;
}

/** @param {{state: import("./state.js").ChartState}} properties */
function Smoothing({ state }) {
  const label = html`Smoothing <span class="v">${state.smoothing ? `${state.smoothing}, raw kept` : "none"}</span>`;
  return html`<${Menu} label=${label} title="An exponential mean over the points">
    ${(/** @type {() => void} */ close) => html`<ul class="choices">
      ${SMOOTHINGS.map((value) => html`<li key=${value}><button type="button" class="choice" aria-pressed=${String(value === state.smoothing)} onClick=${() => (state.setSmoothing(value), close())}>${value ? value : "none"}</button></li>`)}
    </ul>`}
  </${Menu}>`;
}

/** @param {{state: import("./state.js").ChartState}} properties */
function Compare({ state }) {
  const label = html`Compare ${state.compare.length > 0 && html`<span class="v">${state.compare.length}</span>`}`;
  return html`<${Menu} label=${label} title="Draw other runs into the charts">${() => html`<${RunChoice} state=${state} />`}</${Menu}>`;
}

/** @param {{state: import("./state.js").ChartState}} properties */
function RunChoice({ state }) {
  const { place } = useNavigation();
  const [text, setText] = useState("");
  const { data, error } = useData("runs");
  const full = state.compare.length >= MOST_COMPARED;
  const fits = (/** @type {any} */ row) => row.id !== place.run && `${row.name} ${row.model}`.toLowerCase().includes(text.toLowerCase());
  const rows = (data?.rows ?? []).filter(fits).sort((/** @type {any} */ a, /** @type {any} */ b) => Number(state.compare.includes(b.id)) - Number(state.compare.includes(a.id))).slice(0, 40);
  const toggle = (/** @type {string} */ id, /** @type {boolean} */ on) => state.set({ compare: on ? [...state.compare, id] : state.compare.filter((other) => other !== id) });
  return html`<div class="run-choice">
    <${Search} label="Find a run" value=${text} onChange=${setText} />
    ${error && html`<p class="bad small">${error.message}</p>`}
    ${rows.map((/** @type {any} */ row) => html`<${Check} key=${row.id} checked=${state.compare.includes(row.id)} onChange=${(/** @type {boolean} */ on) => (!on || !full) && toggle(row.id, on)}><span class="clip">${row.name}</span></${Check}>`)}
    ${data && rows.length === 0 && html`<p class="dim small">No other run${text ? " of that name" : ""}.</p>`}
    ${full && html`<p class="faint small">${MOST_COMPARED} at most.</p>`}
  </div>`;
}

/**
 * The colours of the compared runs, each with a button that takes it away.
 * @param {{state: import("./state.js").ChartState, own: string, names: Record<string, string>, failed: Record<string, string>}} properties
 */
export function ComparedRuns({ state, own, names, failed }) {
  if (state.compare.length === 0) return null;
  const all = [own, ...state.compare];
  const labels = shortNames(all.map((id) => names[id] ?? id));
  return html`<ul class="compare-list" aria-label="Compared runs">
    ${all.map((id, index) => html`<li key=${id}><i class="sw b${(index % 6) + 1}"></i><span title=${names[id] ?? id}>${labels[index]}</span>
      ${failed[id] && html`<span class="warn small"> <${Icon} name="warn" size=${14} />${failed[id]}</span>`}
      ${index > 0 && html`<button type="button" class="btn quiet" aria-label=${`Compare no longer with ${names[id] ?? id}`} onClick=${() => state.set({ compare: state.compare.filter((other) => other !== id) })}><${Icon} name="close" size=${12} /></button>`}
    </li>`)}
  </ul>`;
}

/** What the marks in charts mean. */
function Legend() {
  return html`<span class="marks faint small hide-m">
    <svg width="10" height="14" viewBox="0 0 10 14" aria-hidden="true"><path class="att" d="M5 0V14" /></svg>attempt
    <svg width="10" height="10" viewBox="0 0 10 10" aria-hidden="true"><path class="ckm" d="M1 8h8l-4-6Z" /></svg>checkpoint
    <svg width="10" height="10" viewBox="0 0 10 10" aria-hidden="true"><path class="nf" d="m1.5 1.5 7 7m0-7-7 7" /></svg>not finite
    <svg width="16" height="10" viewBox="0 0 16 10" aria-hidden="true"><path class="lim" d="M0 5H16" /></svg>alarm limit
  </span>`;
}
