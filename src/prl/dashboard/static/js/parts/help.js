/** The keys that are bound on the page, in a dialog. */

import { KeyContext } from "../lib/keys.js";
import { html, useContext, useEffect, useRef } from "../lib/ui.js";

/** @param {{onClose: () => void}} properties */
export function Help({ onClose }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const map = useContext(KeyContext);
  useEffect(() => dialog.current?.showModal(), []);
  const seen = new Set();
  const bindings = map.bindings().filter(({ keys, hidden }) => !hidden && !seen.has(keys) && seen.add(keys));
  return html`<dialog class="help" ref=${dialog} aria-label="Keys" onClose=${onClose} onClick=${(/** @type {MouseEvent} */ event) => event.target === dialog.current && dialog.current?.close()}>
    <header><h1>Keys</h1><form method="dialog"><button class="btn">Close</button></form></header>
    <dl>
      ${bindings.map(({ keys, about }) => html`<div key=${keys}><dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${about}</dd></div>`)}
      <div><dt><kbd>${"\u2191"}</kbd> <kbd>${"\u2193"}</kbd> <kbd>Enter</kbd></dt><dd>Walk a table and open a row</dd></div>
      <div><dt><kbd>Esc</kbd></dt><dd>Back, or leave a field</dd></div>
    </dl>
  </dialog>`;
}
