/** A link to a place of the dashboard: a real link, which opens in the same page without loading it anew. */

import { useNavigation } from "../lib/location.js";
import { html } from "../lib/ui.js";

/**
 * Other properties (class, aria-*, title) go to the link.
 * @param {{to: import("../lib/place.js").Place, replace?: boolean, children?: import("../lib/ui.js").Children, [name: string]: any}} properties
 */
export function Link({ to, replace = false, children, ...others }) {
  const { go } = useNavigation();
  const click = (/** @type {MouseEvent} */ event) => {
    // A new tab or a download is the browser's.
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to, { replace });
  };
  return html`<a href=${to.href} onClick=${click} ...${others}>${children}</a>`;
}

/** The place that a link of the server's means. @param {import("../lib/place.js").Place} here @param {{page: string, params: Record<string, string>}} link */
export function placeOf(here, link) {
  return here.to(link.page, link.params);
}
