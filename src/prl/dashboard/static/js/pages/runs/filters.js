/** The bar above the list of runs: search, health, phase, directory, and what is selected. */

import { useKeys } from "../../lib/keys.js";
import { html, useRef } from "../../lib/ui.js";
import { Choice, Menu, Search } from "../../parts/controls.js";
import { capital } from "../../parts/facts.js";
import { Icon } from "../../parts/icons.js";
import { HEALTHS, healthCounts, valuesOf } from "./rows.js";

const ICONS = /** @type {Record<string, "bad" | "warn" | "ok" | "unknown">} */ ({ Down: "bad", Degraded: "warn", Healthy: "ok", Unknown: "unknown" });

/**
 * @param {object} properties
 * @param {readonly import("./rows.js").Run[]} properties.runs
 * @param {boolean} properties.known  whether there is an answer: without one there is no count, not even 0
 * @param {readonly string[]} properties.dirs
 * @param {import("./rows.js").Filters} properties.filters
 * @param {(changes: Partial<import("./rows.js").Filters>) => void} properties.onFilter
 * @param {number} properties.selected
 * @param {() => void} properties.onClear
 * @param {() => void} properties.onCompare
 * @param {boolean} properties.comparing
 */
export function Filters({ runs, known, dirs, filters, onFilter, selected, onClear, onCompare, comparing }) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const counts = healthCounts(runs, filters);
  useKeys([{ keys: "/", about: "Search the runs", run: () => input.current?.focus() }]);
  const healths = [
    { value: "", label: html`All <span class="tn">${known && counts[""]}</span>` },
    ...HEALTHS.map((health) => ({ value: health, label: html`<${Icon} name=${ICONS[health]} size=${14} />${health} <span class="tn">${known && counts[health]}</span>` })),
  ];
  return html`<div class="toolbar runs-bar">
    <${Search} class="runs-search" label="Name, model, environment, finding" value=${filters.text} input=${input} onChange=${(/** @type {string} */ text) => onFilter({ text })} />
    <${Choice} label="Health" value=${filters.health} options=${healths} onChange=${(/** @type {string} */ health) => onFilter({ health })} />
    <${OneOf} label="Phase" any="any" value=${filters.phase} words=${capital} options=${valuesOf(runs, "phase")} onChange=${(/** @type {string} */ phase) => onFilter({ phase })} />
    ${dirs.length > 1 && html`<${OneOf} label="Directory" any=${dirs.length === 2 ? "both" : "all"} value=${filters.dir} words=${(/** @type {string} */ dir) => dir} options=${dirs.map((dir) => [dir, runs.filter((run) => run.dir === dir || run.dir.startsWith(`${dir}/`)).length])} onChange=${(/** @type {string} */ dir) => onFilter({ dir })} />`}
    <span class="grow"></span>
    <span class="dim tn nowrap">${selected > 0 && `${selected} selected`}</span>
    ${selected > 0 && html`<button type="button" class="btn quiet" onClick=${onClear}>Clear</button>`}
    <button type="button" class="btn ${selected > 1 ? "primary" : ""}" aria-disabled=${selected > 1 ? undefined : "true"} aria-pressed=${String(comparing)} title=${selected > 1 ? "Compare the selected runs" : "Select two runs or more (x) to compare them"} onClick=${onCompare}>Compare <kbd class="on">c</kbd></button>
  </div>`;
}

/**
 * @param {{label: string, any: string, value: string, words: (value: string) => string, options: readonly (readonly [string, number])[], onChange: (value: string) => void}} properties
 */
function OneOf({ label, any, value, words, options, onChange }) {
  const shown = html`${label} <span class="v clip chosen">${value ? words(value) : any}</span>`;
  const all = /** @type {(readonly [string, number | null])[]} */ ([["", null], ...options]);
  return html`<${Menu} label=${shown}>
    ${(/** @type {() => void} */ close) => html`<ul class="choices">${all.map(
      ([option, count]) => html`<li key=${option}><button type="button" class="choice" aria-pressed=${String(option === value)} onClick=${() => (onChange(option), close())}>
        <span class="clip">${option ? words(option) : any}</span><span class="tn faint">${count}</span></button></li>`,
    )}</ul>`}
  </${Menu}>`;
}
