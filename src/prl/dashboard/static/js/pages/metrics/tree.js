/** The tree of keys: one tab stop, walked by the arrow keys; a branch shows what is below it, a leaf its own chart. */

import { html, useEffect, useRef, useState } from "../../lib/ui.js";
import { Icon } from "../../parts/icons.js";
import { Link } from "../../parts/link.js";
import { isBelow, seenRows } from "./keys.js";

/**
 * @param {object} properties
 * @param {readonly import("./keys.js").Branch[]} properties.branches
 * @param {string} properties.below  the branch that is shown
 * @param {readonly string[]} properties.keys  the keys that are shown large
 * @param {(path: string, leaf: boolean) => import("../../lib/place.js").Place} properties.placeOf
 * @param {boolean} properties.allOpen  all branches are open: something is searched for
 */
export function Tree({ branches, below, keys, placeOf, allOpen }) {
  const [open, setOpen] = useState(/** @type {Record<string, boolean>} */ ({}));
  const [at, setAt] = useState("");
  const list = useRef(/** @type {HTMLUListElement | null} */ (null));
  const isOpen = (/** @type {string} */ path) => open[path] ?? (allOpen || isBelow(below, path) || keys.some((key) => isBelow(key, path)));
  const rows = seenRows(branches, isOpen);
  const stop = rows.some(({ branch }) => branch.path === at) ? at : rows[0]?.branch.path;
  const moved = useRef(false);
  // What the address names is seen, without moving the page.
  useEffect(() => {
    const chosen = /** @type {HTMLElement | null | undefined} */ (list.current?.querySelector("li.on"));
    if (chosen && list.current) list.current.scrollTop = chosen.offsetTop - list.current.offsetTop - list.current.clientHeight / 3;
  }, [branches.length > 0, keys.join(" ")]);
  useEffect(() => {
    if (moved.current) /** @type {HTMLElement | null} */ (list.current?.querySelector("[tabindex='0']"))?.focus();
    moved.current = false;
  }, [at]);
  const walk = (/** @type {KeyboardEvent} */ event) => {
    const index = rows.findIndex(({ branch }) => branch.path === stop);
    const { branch, depth } = rows[index] ?? {};
    if (!branch || depth === undefined) return;
    const go = (/** @type {number} */ next) => ((moved.current = true), setAt(rows[Math.min(rows.length - 1, Math.max(0, next))].branch.path));
    const folds = branch.children.length > 0;
    if (event.key === "ArrowDown") go(index + 1);
    else if (event.key === "ArrowUp") go(index - 1);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(rows.length - 1);
    else if (event.key === "ArrowRight" && folds) isOpen(branch.path) ? go(index + 1) : setOpen({ ...open, [branch.path]: true });
    else if (event.key === "ArrowLeft" && folds && isOpen(branch.path)) setOpen({ ...open, [branch.path]: false });
    else if (event.key === "ArrowLeft") go(rows.findLastIndex((row, place) => place < index && row.depth < depth));
    else return;
    event.preventDefault();
  };
  return html`<ul class="tree" role="tree" aria-label="Keys" ref=${list} onKeyDown=${walk}>
    ${rows.map(({ branch, depth }) => {
      const folds = branch.children.length > 0;
      const shown = folds ? branch.path === below : keys.includes(branch.path);
      return html`<li key=${branch.path} role="none" class=${shown ? "on" : ""} style=${{ paddingLeft: `${8 + 14 * depth}px` }}>
        <button type="button" class="fold ${folds ? "" : "leaf"}" tabindex="-1" aria-hidden="true" onClick=${() => setOpen({ ...open, [branch.path]: !isOpen(branch.path) })}>${folds && html`<${Icon} name=${isOpen(branch.path) ? "down" : "right"} size=${12} />`}</button>
        <${Link} role="treeitem" class="clip mono" tabindex=${branch.path === stop ? 0 : -1} aria-level=${depth + 1} aria-expanded=${folds ? String(isOpen(branch.path)) : undefined} aria-selected=${String(shown)}
          title=${branch.path} to=${placeOf(branch.path, !folds)} onFocus=${() => setAt(branch.path)}>${branch.name}</${Link}>
        ${folds && html`<span class="tn faint small">${branch.count}</span>`}
      </li>`;
    })}
  </ul>`;
}
