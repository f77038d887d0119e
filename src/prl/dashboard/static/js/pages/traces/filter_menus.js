/** Menus that set one filter each: some of the values that occur, a range, or yes and no. */

import { count, number } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html, useEffect, useState } from "../../lib/ui.js";
import { Check, Choice, Menu } from "../../parts/controls.js";
import { oneLine } from "../viewer/visible.js";
import { activeFilters, labelOf, rangeEnds, rangeOf, rangeText } from "./filters.js";

const MOST = 200;

/** Values to choose some of. With `inside` they stand in another menu. @param {{name: string, values: Record<string, number> | undefined, inside?: boolean}} properties */
export function ManyMenu({ name, values, inside = false }) {
  const { place, go } = useNavigation();
  const chosen = place.all(name);
  const known = Object.entries(values ?? {});
  // A chosen value stays to be taken away, even when nothing of it is left.
  for (const value of chosen) if (!known.some(([one]) => one === value)) known.push([value, 0]);
  const toggle = (/** @type {string} */ value, /** @type {boolean} */ on) => go(place.with({ [name]: on ? [...chosen, value] : chosen.filter((one) => one !== value), sel: null }), { replace: true });
  const list = html`<fieldset class="values"><legend class=${inside ? "" : "vh"}>${labelOf(name)}</legend>
    ${known.slice(0, MOST).map(([value, many]) => html`<div key=${value} class="value"><${Check} checked=${chosen.includes(value)} onChange=${(/** @type {boolean} */ on) => toggle(value, on)}>${oneLine(value, 60) || "none"}</${Check}><span class="num dim">${count(many)}</span></div>`)}
    ${known.length === 0 && html`<p class="faint">None occur</p>`}
    ${known.length > MOST && html`<p class="faint">and ${count(known.length - MOST)} more: type ${name}:</p>`}
    ${chosen.length > 0 && html`<button type="button" class="btn quiet" onClick=${() => go(place.with({ [name]: null, sel: null }), { replace: true })}>Any</button>`}
  </fieldset>`;
  if (inside) return list;
  const said = chosen.length === 0 ? (name === "outcome" ? "any" : "all") : chosen.length === 1 ? oneLine(chosen[0], 18) : `${chosen.length} of ${known.length}`;
  return html`<${Menu} class="m-${name}" label=${html`${labelOf(name)} <span class="v">${said}</span>`}>${() => list}</${Menu}>`;
}

/** A range of a number. @param {{name: string, known: readonly [number | null, number | null] | null | undefined, inside?: boolean}} properties */
export function RangeMenu({ name, known, inside = false }) {
  const { place, go } = useNavigation();
  const range = place.get(name);
  const set = (/** @type {string | null} */ next) => go(place.with({ [name]: next, sel: null }), { replace: true });
  const fields = html`<${RangeFields} name=${name} range=${range} known=${known} onSet=${set} legend=${inside} />`;
  if (inside) return fields;
  return html`<${Menu} class="m-${name}" label=${html`${labelOf(name)} <span class="v tn">${rangeText(range)}</span>`}>${() => fields}</${Menu}>`;
}

/** @param {{name: string, range: string, known: readonly [number | null, number | null] | null | undefined, onSet: (range: string | null) => void, legend: boolean}} properties */
function RangeFields({ name, range, known, onSet, legend }) {
  const [ends, setEnds] = useState(rangeEnds(range));
  useEffect(() => setEnds(rangeEnds(range)), [range]);
  const next = rangeOf(ends[0], ends[1]);
  const set = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (next !== null) onSet(next || null);
  };
  const field = (/** @type {0 | 1} */ end, /** @type {string} */ label) => {
    const limit = known?.[end];
    return html`<label class="end-of"><span>${label}</span><span class="field"><input inputmode="decimal" size="8" value=${ends[end]} placeholder=${limit === null || limit === undefined ? "" : number(limit)}
      aria-invalid=${next === null ? "true" : undefined} onInput=${(/** @type {any} */ event) => setEnds(end === 0 ? [event.currentTarget.value, ends[1]] : [ends[0], event.currentTarget.value])} /></span></label>`;
  };
  return html`<form class="range" onSubmit=${set}><fieldset><legend class=${legend ? "" : "vh"}>${labelOf(name)}</legend>
    ${field(0, "from")}${field(1, "to")}
    <button class="btn" type="submit" aria-disabled=${next === null ? "true" : undefined}>Set</button>
    ${range !== "" && html`<button type="button" class="btn quiet" onClick=${() => onSet(null)}>Any</button>`}
  </fieldset>${next === null && html`<p class="small warn" role="alert">Both ends are numbers, or empty.</p>`}</form>`;
}

/** Yes, no, or either. @param {{name: string}} properties */
export function FlagMenu({ name }) {
  const { place, go } = useNavigation();
  const value = place.get(name);
  return html`<div class="flag"><span>${labelOf(name)}</span><${Choice} label=${labelOf(name)} value=${value} onChange=${(/** @type {string} */ next) => go(place.with({ [name]: next || null, sel: null }), { replace: true })}
    options=${[{ value: "", label: "any" }, { value: "1", label: "yes" }, { value: "0", label: "no" }]} /></div>`;
}

/** @param {{names: readonly string[], children: any}} properties */
export function More({ names, children }) {
  const { place } = useNavigation();
  const set = activeFilters(place).filter((name) => names.includes(name)).length;
  return html`<${Menu} class="m-more" label=${html`More <span class="v tn">${set > 0 ? set : ""}</span>`} title="Agent, stop condition, step of dispatch, truncated, effective">${() => html`<div class="more-filters">${children}</div>`}</${Menu}>`;
}
