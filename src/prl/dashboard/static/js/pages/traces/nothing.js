/** When filters leave nothing: which of them took most away, and the way to lift it. */

import { count, plural } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html } from "../../lib/ui.js";
import { activeFilters, labelOf, withoutFilters } from "./filters.js";

/** @param {{facets: any}} properties `without`: episodes that are left when each filter alone is lifted */
export function Nothing({ facets }) {
  const { place, go } = useNavigation();
  const active = activeFilters(place);
  const without = /** @type {Record<string, number>} */ (facets?.without ?? {});
  const [worst, left] = Object.entries(without).sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
  return html`<div class="state nothing" role="status">
    <p><b>No episode passes ${active.length === 1 ? "this filter" : `these ${active.length} filters together`}.</b>
      ${left > 0 ? html` Most is taken away by ${html`<b>${labelOf(worst).toLowerCase()}</b>`}: without it there ${left === 1 ? "is" : "are"} ${plural(left, "episode")}.` : active.length > 1 ? " No one of them alone makes the difference." : ""}
      ${facets?.all ? html` <span class="dim">The run has ${count(facets.all)}.</span>` : ""}</p>
    <p class="row">
      ${left > 0 && html`<button type="button" class="btn" onClick=${() => go(withoutFilters(place, [worst]))}>Clear ${labelOf(worst).toLowerCase()}</button>`}
      <button type="button" class="btn" onClick=${() => go(withoutFilters(place))}>Clear all filters</button>
    </p>
  </div>`;
}
