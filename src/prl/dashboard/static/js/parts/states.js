/** What stands in place of data: nothing there yet, still loading, failed. None of them moves what is around it. */

import { ApiError } from "../lib/api.js";
import { html } from "../lib/ui.js";
import { sentences } from "./facts.js";
import { Icon } from "./icons.js";

/** One sentence on what is missing and what makes it appear. @param {{children?: import("../lib/ui.js").Children}} properties */
export function Empty({ children }) {
  return html`<p class="state dim">${children}</p>`;
}

/** In place of the part that failed. @param {{error: Error, what: string, again?: () => void}} properties */
export function Failed({ error, what, again }) {
  const kind = error instanceof ApiError && error.kind !== "internal" ? "" : " Other parts of the page go on.";
  return html`<div class="state failed" role="alert">
    <span class="bad"><${Icon} name="bad" /></span>
    <p><b>${what}</b> ${sentences(error.message)}${kind}</p>
    ${again && html`<button class="btn" type="button" onClick=${again}>Try again</button>`}
  </div>`;
}

/** A bar in place of a value that is on its way, `width` in em. @param {{width?: number}} properties */
export function Waiting({ width = 4 }) {
  return html`<span class="waiting" style=${{ width: `${width}em` }}><span class="vh">loading</span></span>`;
}
