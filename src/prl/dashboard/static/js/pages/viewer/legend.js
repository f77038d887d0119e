/** What the colours mean, how many tokens are marked, and the way to the next of them. */

import { plural } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html } from "../../lib/ui.js";
import { legendOf } from "./overlays.js";

/**
 * @param {{overlay: import("./overlays.js").Overlay, scale: "fixed" | "trace", bounds: readonly number[], map: any, tokens: import("./tokens.js").Tokens, onWalk: (by: 1 | -1) => void, onFurthest: () => void}} properties
 */
export function Legend({ overlay, scale, bounds, map, tokens, onWalk, onFurthest }) {
  const { place, go } = useNavigation();
  const cells = legendOf(overlay, bounds);
  const scaled = overlay.form !== "mask";
  const recomputed = overlay.stream !== null && tokens.recomputed(overlay.stream, 0);
  const marked = map?.marked_total ?? null;
  return html`<div class="vh2 legr">
    <span class="nowrap lgt"><b>${overlay.label}</b> <span class="faint">${[overlay.unit, recomputed || map?.recomputed ? "recomputed" : ""].filter(Boolean).join(", ")}</span></span>
    ${scaled
      ? html`<span class="lgw" role="img" aria-label=${`Legend: ${cells.map(({ label }) => label).filter(Boolean).join(", ")}`}>
          <span class="lg">${cells.map(({ name }) => html`<span key=${name} class="lc ${name}"></span>`)}</span>
          <span class="lt tn">${cells.map(({ name, label }) => html`<span key=${name}>${label}</span>`)}</span></span>
        <label class="btn scale"><span>Scale</span><select aria-label="Scale" onChange=${(/** @type {any} */ event) => go(place.with({ scale: event.currentTarget.value === "trace" ? "trace" : null }), { replace: true })}>
          <option value="fixed" selected=${scale === "fixed"}>fixed</option><option value="trace" selected=${scale === "trace"}>this trace</option></select></label>`
      : html`<span class="row lgm">${cells.map(({ name, label }) => html`<span key=${name} class="mm ${name}">${label}</span>`)}</span>`}
    <span class="grow"></span>
    <span class="dim tn nowrap hide-m" aria-live="polite">${marked === null ? html`<span class="waiting"></span>` : `${plural(marked, "token")} ${overlay.marked}`}</span>
    ${scaled && html`<button type="button" class="btn quiet" title="The token farthest from zero" aria-disabled=${map?.furthest == null ? "true" : undefined} onClick=${onFurthest}>${overlay.form === "down" ? "Lowest" : "Largest"} <kbd>w</kbd></button>`}
    <button type="button" class="btn quiet" aria-disabled=${marked === 0 ? "true" : undefined} onClick=${() => onWalk(-1)}>Previous <kbd>N</kbd></button>
    <button type="button" class="btn quiet" aria-disabled=${marked === 0 ? "true" : undefined} onClick=${() => onWalk(1)}>Next <kbd>n</kbd></button>
  </div>`;
}
