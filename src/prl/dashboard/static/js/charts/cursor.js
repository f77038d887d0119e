/** The one cursor of all charts of a page: where the pointer is, else where it was pinned. */

import { createContext, useContext, useEffect, useState } from "../lib/ui.js";

export class Cursor {
  constructor() {
    /** @type {number | null} */
    this.hovered = null;
    /** @type {number | null} */
    this.pinned = null;
    /** @type {Set<(at: number | null) => void>} */
    this.listeners = new Set();
    this.frame = 0;
  }

  /** Its x; null: nowhere, and charts show their newest values. */
  get at() {
    return this.hovered ?? this.pinned;
  }

  /** @param {number | null} x */
  hover(x) {
    if (x === this.hovered) return;
    this.hovered = x;
    this.#tell();
  }

  /** @param {number | null} x */
  pin(x) {
    if (x === this.pinned) return;
    this.pinned = x;
    this.#tell();
  }

  /** @param {(at: number | null) => void} listener told at most once a frame @returns {() => void} ends it */
  listen(listener) {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  #tell() {
    if (this.frame !== 0) return;
    this.frame = window.requestAnimationFrame(() => {
      this.frame = 0;
      for (const listener of this.listeners) listener(this.at);
    });
  }
}

/** @type {import("../../vendor/preact.mjs").Context<Cursor>} */
export const CursorContext = createContext(new Cursor());

/** The cursor's x as state. @returns {number | null} */
export function useCursorAt() {
  const cursor = useContext(CursorContext);
  const [at, setAt] = useState(cursor.at);
  useEffect(() => {
    setAt(cursor.at);
    return cursor.listen(setAt);
  }, [cursor]);
  return at;
}
