/** A long table: sorted by its headers, of which only the rows on the screen are drawn, walked by the arrow keys. */

import { useScrollBox } from "../lib/hooks.js";
import { html, useEffect, useState } from "../lib/ui.js";
import { visibleRows } from "../lib/windowing.js";
import { Icon } from "./icons.js";

/**
 * @template R
 * @typedef {object} Column
 * @property {string} id
 * @property {any} label
 * @property {(row: R, index: number) => any} cell
 * @property {boolean} [number]  right-aligned, tabular figures
 * @property {string} [class]  its width and when it hides
 * @property {boolean} [sortable]
 * @property {string} [title]
 */

/**
 * `rows` may have holes (null) that are not loaded; `onNeed` is told which are seen. `active` is the row of the one
 * tab stop; arrow keys, Home, End and Page keys move it, Enter opens it.
 * @template R
 * @param {object} properties
 * @param {string} properties.label
 * @param {readonly Column<R>[]} properties.columns
 * @param {readonly (R | null)[]} properties.rows
 * @param {(row: R) => string} properties.id
 * @param {number} [properties.height] of a row, pixels
 * @param {string} [properties.sort] id of the column sorted by
 * @param {boolean} [properties.descending]
 * @param {(column: string) => void} [properties.onSort]
 * @param {number} properties.active
 * @param {(index: number) => void} properties.onActive
 * @param {(row: R, index: number) => void} [properties.onOpen]
 * @param {(row: R, index: number) => void} [properties.onPick]  a click; where absent, a click opens
 * @param {any} [properties.lead]  a tbody above the rows, which is always drawn
 * @param {number} [properties.leadHeight]  its height, pixels
 * @param {(first: number, last: number) => void} [properties.onNeed]
 * @param {(row: R) => string} [properties.rowClass]
 * @param {any} [properties.empty] in place of rows
 * @param {string} [properties.class]
 */
export function Table({ label, columns, rows, id, height = 28, sort, descending, onSort, active, onActive, onOpen, onPick, onNeed, rowClass, empty, lead, leadHeight = 0, class: name = "" }) {
  const { ref, height: view, top } = useScrollBox();
  const { first, last, before, after } = visibleRows(rows.length, height, Math.max(0, top - leadHeight), view || 600);
  const [focused, setFocused] = useState(false);
  useEffect(() => onNeed?.(first, last), [first, last, rows]);
  useEffect(() => {
    const box = /** @type {HTMLElement | null} */ (ref.current);
    if (!box || !focused || active < 0) return;
    const head = box.querySelector("thead")?.clientHeight ?? 0;
    const at = leadHeight + active * height;
    if (at < box.scrollTop) box.scrollTop = at;
    else if (at + height + head > box.scrollTop + box.clientHeight) box.scrollTop = at + height + head - box.clientHeight;
    box.querySelector(`tr[data-index="${active}"]`)?.scrollIntoView({ block: "nearest" });
    /** @type {HTMLElement | null} */ (box.querySelector(`tr[data-index="${active}"]`))?.focus({ preventScroll: true });
  }, [active, focused]);

  const page = Math.max(1, Math.floor(view / height) - 1);
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (!(/** @type {HTMLElement} */ (event.target).closest("tr[data-index]"))) return;
    const steps = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length });
    const row = rows[active];
    if (event.key in steps) onActive(Math.min(rows.length - 1, Math.max(0, active + steps[event.key])));
    else if (event.key === "Enter" && row && /** @type {HTMLElement} */ (event.target).tagName === "TR") onOpen?.(row, active);
    else return;
    event.preventDefault();
  };
  const shown = rows.slice(first, last);
  const stop = active >= first && active < last ? active : first;
  return html`<div class="table-box ${name}" ref=${ref} tabindex="-1">
    <table class="table ${height > 30 ? "two" : ""}" aria-label=${label} aria-rowcount=${rows.length}>
      <thead><tr>${columns.map((column) => html`<${Header} key=${column.id} column=${column} sort=${sort} descending=${descending} onSort=${onSort} />`)}</tr></thead>
      ${lead}
      <tbody onKeyDown=${key} onFocusIn=${() => setFocused(true)} onFocusOut=${() => setFocused(false)}>
        ${before > 0 && html`<tr key="before" class="gap" aria-hidden="true"><td style=${{ height: `${before}px` }}></td></tr>`}
        ${shown.map((row, offset) => {
          const index = first + offset;
          if (row === null) return html`<tr key=${`hole ${index}`} class="hole"><td><span class="waiting"></span></td></tr>`;
          return html`<tr key=${id(row)} data-index=${index} aria-rowindex=${index + 1} tabindex=${index === stop ? 0 : -1} class=${rowClass?.(row) ?? ""}
            onClick=${(/** @type {MouseEvent} */ event) => rowClick(event, () => (onActive(index), (onPick ?? onOpen)?.(row, index)))}>
            ${columns.map((column) => html`<td key=${column.id} class="${column.number ? "num" : ""} ${column.class ?? ""}">${column.cell(row, index)}</td>`)}
          </tr>`;
        })}
        ${after > 0 && html`<tr key="after" class="gap" aria-hidden="true"><td style=${{ height: `${after}px` }}></td></tr>`}
      </tbody>
    </table>
    ${rows.length === 0 && empty}
  </div>`;
}

/** A click on a row opens it, unless it was on a control, or a text was being selected. @param {MouseEvent} event @param {() => void} open */
function rowClick(event, open) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (target.closest("a, button, input, label") || String(window.getSelection() ?? "")) return;
  open();
}

/** @param {{column: Column<any>, sort?: string, descending?: boolean, onSort?: (column: string) => void}} properties */
function Header({ column, sort, descending, onSort }) {
  const sorted = sort === column.id;
  const order = sorted ? (descending ? "descending" : "ascending") : undefined;
  const name = `${column.number ? "num" : ""} ${column.class ?? ""}`;
  if (!column.sortable) return html`<th scope="col" class=${name} title=${column.title}>${column.label}</th>`;
  return html`<th scope="col" class=${name} aria-sort=${order} title=${column.title}>
    <button type="button" class="sort" onClick=${() => onSort?.(column.id)}>${column.label}${sorted && html`<${Icon} name=${descending ? "down" : "up"} size=${12} />`}</button>
  </th>`;
}
