/**
 * A piece of a branch as tokens. Made by hand, not as a tree of components: a thousand tokens are on the screen, and
 * another overlay changes nothing but their classes.
 */

import { html, useLayoutEffect, useRef } from "../../lib/ui.js";
import { classOf } from "./overlays.js";
import { visibleToken } from "./visible.js";

/**
 * @typedef {object} Paint
 * @property {import("./overlays.js").Overlay} overlay
 * @property {readonly number[]} bounds
 * @property {number | null} active  the chosen token
 * @property {number | null} stop  the one that Tab goes to
 * @property {readonly (readonly [number, number, string])[]} quoted  tokens from first up to last, and why
 */

/** @param {{tokens: import("./tokens.js").Tokens, first: number, last: number, paint: Paint, version: number, about: number, label: string}} properties `about`: its height while it is not loaded */
export function Chunk({ tokens, first, last, paint, version, about, label }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const made = useRef("");
  useLayoutEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    if (!tokens.need(first, last)) {
      // It keeps what it shows, and its place where it shows nothing: nothing around it moves twice.
      if (made.current === "") element.style.minHeight = `${about}px`;
      return;
    }
    const key = `${first} ${last}`;
    if (made.current !== key) {
      element.replaceChildren(spansOf(tokens, first, last));
      element.style.minHeight = "";
      made.current = key;
    }
    colour(element, tokens, first, paint);
  }, [tokens, first, last, paint, version]);
  return html`<div class="toks" ref=${box} role="group" aria-label=${label}></div>`;
}

/** @param {import("./tokens.js").Tokens} tokens @param {number} first @param {number} last */
function spansOf(tokens, first, last) {
  const all = document.createDocumentFragment();
  for (let position = first; position < last; position += 1) {
    const span = document.createElement("span");
    span.textContent = visibleToken(tokens.text(position) ?? "");
    span.setAttribute("data-p", String(position));
    span.tabIndex = -1;
    all.append(span);
  }
  return all;
}

/** @param {Element} element @param {import("./tokens.js").Tokens} tokens @param {number} first @param {Paint} paint */
function colour(element, tokens, first, { overlay, bounds, active, stop, quoted }) {
  const stream = overlay.stream ?? "";
  let position = first;
  for (let span = element.firstElementChild; span; span = span.nextElementSibling, position += 1) {
    const at = position;
    const shade = classOf(overlay, bounds, tokens.value(stream, at));
    let name = shade === "" ? "tk bare" : `tk ${shade}`;
    if (tokens.special(at)) name += " sp";
    if (at === active) name += " on";
    const quote = quoted.length > 0 ? quoted.find(([from, to]) => at >= from && at < to) : undefined;
    if (quote) name += " qt";
    if (span.className !== name) span.className = name;
    const order = at === stop ? 0 : -1;
    const focusable = /** @type {HTMLElement} */ (span);
    if (focusable.tabIndex !== order) focusable.tabIndex = order;
  }
}
