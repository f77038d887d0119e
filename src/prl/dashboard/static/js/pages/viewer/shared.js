/** A value that a few parts share, so that a change of it draws those parts anew and not all that is around them. */

import { useEffect, useState } from "../../lib/ui.js";

/** @template T */
export class Shared {
  /** @param {T} value */
  constructor(value) {
    this.value = value;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
  }

  /** @param {T} value */
  set(value) {
    if (value === this.value) return;
    this.value = value;
    for (const listener of this.listeners) listener();
  }
}

/** @template T @param {Shared<T>} shared @returns {T} */
export function useShared(shared) {
  const [, setRound] = useState(0);
  useEffect(() => {
    const heard = () => setRound((last) => last + 1);
    shared.listeners.add(heard);
    heard();
    return () => void shared.listeners.delete(heard);
  }, [shared]);
  return shared.value;
}
