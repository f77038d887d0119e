/** Controls that several pages have: one choice of few, a search field, a menu. */

import { html, useEffect, useId, useRef, useState } from "../lib/ui.js";
import { Icon } from "./icons.js";

/**
 * One choice of a few, as buttons.
 * @param {{label: string, value: string, options: readonly {value: string, label: any, title?: string, disabled?: boolean}[], onChange: (value: string) => void}} properties
 */
export function Choice({ label, value, options, onChange }) {
  return html`<div class="seg" role="group" aria-label=${label}>
    ${options.map(
      (option) => html`<button type="button" key=${option.value} aria-pressed=${String(option.value === value)} title=${option.title}
        aria-disabled=${option.disabled ? "true" : undefined} onClick=${() => option.disabled || onChange(option.value)}>${option.label}</button>`,
    )}
  </div>`;
}

/**
 * A field for text that is looked for. `onChange` hears every change.
 * @param {{label: string, value: string, onChange: (value: string) => void, placeholder?: string, hint?: any, onEnter?: (event: KeyboardEvent) => void, input?: {current: HTMLInputElement | null}, class?: string}} properties
 */
export function Search({ label, value, onChange, placeholder = label, hint, onEnter, input, class: name = "" }) {
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter") onEnter?.(event);
    if (event.key !== "Escape") return;
    // It leaves the field, and no more: what the page has bound to it is for the next one.
    event.preventDefault();
    /** @type {HTMLInputElement} */ (event.currentTarget).blur();
  };
  return html`<label class="field ${name}">
    <${Icon} name="search" /><span class="vh">${label}</span>
    <input type="search" ref=${input} value=${value} placeholder=${placeholder} autocomplete="off" spellcheck=${false}
      onInput=${(/** @type {any} */ event) => onChange(event.currentTarget.value)} onKeyDown=${key} />
    ${hint}
  </label>`;
}

/**
 * A button that opens a panel below it. Escape, a click elsewhere and leaving by Tab close it.
 * @param {{label: any, title?: string, children: (close: () => void) => any, class?: string, align?: "left" | "right"}} properties
 */
export function Menu({ label, title, children, class: name = "", align = "left" }) {
  const [open, setOpen] = useState(false);
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const id = useId();
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  useEffect(() => {
    if (!open) return undefined;
    const away = (/** @type {Event} */ event) => {
      const target = /** @type {globalThis.Node} */ (event.target);
      // A press on a label focuses what is around the menu and can be focused, as the page's main part can.
      const around = event.type === "focusin" && target.contains(box.current);
      if (!around && !box.current?.contains(target)) setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    document.addEventListener("focusin", away);
    return () => {
      document.removeEventListener("pointerdown", away);
      document.removeEventListener("focusin", away);
    };
  }, [open]);
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || !open) return;
    event.preventDefault();
    event.stopPropagation();
    close();
  };
  return html`<div class="menu ${name}" ref=${box} onKeyDown=${key}>
    <button type="button" class="btn" ref=${button} aria-expanded=${String(open)} aria-controls=${id} title=${title} onClick=${() => setOpen(!open)}>
      ${label}<${Icon} name="down" />
    </button>
    <div class="panel ${align}" id=${id} hidden=${!open}>${open && children(close)}</div>
  </div>`;
}

/** @param {{checked: boolean, onChange: (checked: boolean) => void, children?: any, title?: string}} properties */
export function Check({ checked, onChange, children, title }) {
  return html`<label class="checkbox" title=${title}>
    <input type="checkbox" checked=${checked} onChange=${(/** @type {any} */ event) => onChange(event.currentTarget.checked)} />${children}
  </label>`;
}

/** Copies a text, and says that it did. @param {{text: string, label?: string}} properties */
export function Copy({ text, label = "Copy" }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid("Copied");
    } catch {
      setSaid("Not allowed by the browser");
    }
    window.setTimeout(() => setSaid(""), 2000);
  };
  return html`<button type="button" class="btn quiet" onClick=${copy}><${Icon} name="copy" /><span aria-live="polite">${said || label}</span></button>`;
}
