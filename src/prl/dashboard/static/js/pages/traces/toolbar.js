/** The bar above the list: search, filters, how many pass, when they arrived, export. */

import { address, runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { count, moment } from "../../lib/format.js";
import { useThrottled } from "../../lib/hooks.js";
import { useKeys } from "../../lib/keys.js";
import { useNavigation } from "../../lib/location.js";
import { usePulse } from "../../lib/pulse.js";
import { html, useEffect, useRef, useState } from "../../lib/ui.js";
import { Menu, Search } from "../../parts/controls.js";
import { Icon } from "../../parts/icons.js";
import { oneLine } from "../viewer/visible.js";
import { sortOf, SUMMARY_MS } from "./episodes.js";
import { filterParameters, labelOf, typedFilters, withoutFilters } from "./filters.js";
import { FlagMenu, ManyMenu, More, RangeMenu } from "./filter_menus.js";
import { ArrivalHistogram } from "./histogram.js";

/** Filters that have no button of their own: they stand as words that can be taken away. */
const AS_WORDS = ["agent", "stop", "dispatched", "group", "task", "since", "until", "truncated", "effective"];

/** @param {{facets: any, fresh: number, onFresh: () => void}} properties `fresh`: episodes that came and are not in the list */
export function Toolbar({ facets, fresh, onFresh }) {
  const { place } = useNavigation();
  const run = /** @type {string} */ (place.run);
  const version = useThrottled(usePulse().run?.episodes, SUMMARY_MS);
  const histogram = useData(runPath(run, "episodes", "histogram"), { ...filterParameters(place, ["since", "until"]), by: "arrival", bins: 80 }, { version });
  return html`<div class="toolbar fb">
    <${SearchField} />
    <${ManyMenu} name="env" values=${facets?.facets?.env} />
    <${ManyMenu} name="kind" values=${facets?.facets?.kind} />
    <${ManyMenu} name="outcome" values=${facets?.facets?.outcome} />
    <${RangeMenu} name="reward" known=${facets?.reward} />
    <${RangeMenu} name="step" known=${facets?.steps} />
    <${More} names=${["agent", "stop", "dispatched", "truncated", "effective"]}>
      <${ManyMenu} name="agent" values=${facets?.facets?.agent} inside />
      <${ManyMenu} name="stop" values=${facets?.facets?.stop_condition} inside />
      <${RangeMenu} name="dispatched" known=${null} inside />
      <${FlagMenu} name="truncated" /><${FlagMenu} name="effective" />
    </${More}>
    <${Words} />
    <span class="grow"></span>
    ${fresh > 0 && html`<button type="button" class="lnk newer tn" title="Show them: the list does not move by itself" onClick=${onFresh}>${count(fresh)} new</button>`}
    <span class="dim tn nowrap many" aria-live="polite">${facets ? html`<b class="fg">${count(facets.total)}</b> of ${count(facets.all)} episodes` : html`<span class="waiting"></span>`}</span>
    <${ArrivalHistogram} histogram=${histogram.data} />
    <${ExportMenu} total=${facets?.total ?? null} />
  </div>`;
}

/** One field for text that is looked for and for filters by word: "reward>0.5 task:mw-7 carry the one". */
function SearchField() {
  const { place, go } = useNavigation();
  const text = place.get("text");
  const [typed, setTyped] = useState(text);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => setTyped(text), [text]);
  useKeys([{ keys: "/", about: "Search what models and environments wrote", run: () => input.current?.focus() }]);
  const enter = () => go(place.with({ ...typedFilters(typed), sel: null, hit: null }));
  const change = (/** @type {string} */ next) => {
    setTyped(next);
    if (next === "" && text !== "") go(place.with({ text: null, hit: null }));
  };
  return html`<${Search} class="fs" label="Search text, or filter by task:, group:, stop:, reward>0.5" placeholder="Text, task:, group:, stop:, reward>0.5" value=${typed} input=${input} onChange=${change} onEnter=${enter} hint=${html`<kbd>/</kbd>`} />`;
}

/** The filters without a button, each to be taken away. */
function Words() {
  const { place, go } = useNavigation();
  const set = filterParameters(place);
  const names = AS_WORDS.filter((name) => name in set);
  if (names.length === 0) return null;
  const value = (/** @type {string} */ name) => {
    const values = place.all(name);
    if (name === "since" || name === "until") return moment(Number(values[0]));
    return values.map((one) => oneLine(one, 24)).join(", ");
  };
  return html`<ul class="words" aria-label="Other filters">
    ${names.map((name) => html`<li key=${name}><button type="button" class="btn quiet word" title="Take this filter away" onClick=${() => go(withoutFilters(place, [name]))}>
      <span class="dim">${labelOf(name)}</span> ${value(name)}<${Icon} name="close" size=${12} /></button></li>`)}
  </ul>`;
}

/** @param {{total: number | null}} properties */
function ExportMenu({ total }) {
  const { place } = useNavigation();
  const url = (/** @type {string} */ format) => address(runPath(/** @type {string} */ (place.run), "episodes", "export"), { ...filterParameters(place), ...sortOf(place), format });
  return html`<${Menu} label=${html`<${Icon} name="download" /><span class="vh">Export</span>`} title="Export what is filtered" align="right">
    ${(/** @type {() => void} */ close) => html`<p class="small dim say">${total === null ? "What is filtered" : `${count(total)} episodes, as they are filtered and sorted`}</p>
      <ul class="choices">
        <li><a href=${url("jsonl")} download onClick=${close}><b>JSONL</b> <span class="dim">whole records, with what became known later</span></a></li>
        <li><a href=${url("csv")} download onClick=${close}><b>CSV</b> <span class="dim">one row an episode: index and values</span></a></li>
      </ul>`}
  </${Menu}>`;
}
