/**
 * Keys. A part binds some while it is mounted; the newest binding of a key wins; `?` lists all that are bound.
 *
 * A combination is a key's name, or two with a space for one after the other: "j", "Escape", "g o".
 */

import { createContext, useContext, useEffect, useRef } from "./ui.js";

/** Milliseconds within which the second key of a pair must follow. */
const PAIR_MS = 1000;

/** @typedef {{keys: string, about: string, run: (event: KeyboardEvent) => void, hidden?: boolean}} Binding */

/** Whether typing goes into a field, so that keys are text. @param {EventTarget | null} target */
function isTyping(target) {
  const element = /** @type {HTMLElement | null} */ (target);
  if (!element || !element.tagName) return false;
  if (element.isContentEditable || element.tagName === "TEXTAREA" || element.tagName === "SELECT") return true;
  return element.tagName === "INPUT" && !["checkbox", "radio", "button", "range"].includes(/** @type {HTMLInputElement} */ (element).type);
}

export class KeyMap {
  constructor() {
    /** @type {Set<() => readonly Binding[]>} */
    this.sources = new Set();
    this.first = "";
    this.firstAt = 0;
  }

  /** All bindings, the newest first. */
  bindings() {
    return [...this.sources].reverse().flatMap((source) => source());
  }

  /** @param {KeyboardEvent} event */
  handle(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target) && event.key !== "Escape") return;
    const pair = event.timeStamp - this.firstAt < PAIR_MS ? `${this.first} ${event.key}` : "";
    const bindings = this.bindings();
    const found = bindings.find(({ keys }) => keys === pair) ?? bindings.find(({ keys }) => keys === event.key);
    this.first = "";
    if (found) {
      event.preventDefault();
      found.run(event);
    } else if (bindings.some(({ keys }) => keys.startsWith(`${event.key} `))) {
      [this.first, this.firstAt] = [event.key, event.timeStamp];
    }
  }
}

/** @type {import("../../vendor/preact.mjs").Context<KeyMap>} */
export const KeyContext = createContext(new KeyMap());

/** Bind keys while the component is mounted. @param {readonly Binding[]} bindings may differ at each render */
export function useKeys(bindings) {
  const map = useContext(KeyContext);
  const newest = useRef(bindings);
  newest.current = bindings;
  useEffect(() => {
    const source = () => newest.current;
    map.sources.add(source);
    return () => void map.sources.delete(source);
  }, [map]);
}
