/** Small hooks that several parts need. */

import { useEffect, useRef, useState } from "./ui.js";

/** The time, Unix seconds, anew every `seconds`. @param {number} [seconds] */
export function useNow(seconds = 1) {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now() / 1000), seconds * 1000);
    return () => window.clearInterval(timer);
  }, [seconds]);
  return now;
}

/** A value once it rested for `ms`: what somebody types. @template T @param {T} value @param {number} [ms] @returns {T} */
export function useRested(value, ms = 200) {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setRested(value), ms);
    return () => window.clearTimeout(timer);
  }, [value, ms]);
  return rested;
}

/**
 * The size of an element, and its scroll position, as they change.
 * @template {HTMLElement} E
 * @returns {{ref: {current: E | null}, width: number, height: number, top: number}}
 */
export function useScrollBox() {
  const ref = useRef(/** @type {E | null} */ (null));
  const [box, setBox] = useState({ width: 0, height: 0, top: 0 });
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const look = () =>
      setBox((last) => {
        const next = { width: element.clientWidth, height: element.clientHeight, top: element.scrollTop };
        return last.width === next.width && last.height === next.height && last.top === next.top ? last : next;
      });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  return { ref, ...box };
}

/** A value that changes at most once in `ms`; the newest in the end. @template T @param {T} value @param {number} ms @returns {T} */
export function useThrottled(value, ms) {
  const [shown, setShown] = useState(value);
  const changed = useRef(0);
  useEffect(() => {
    if (value === shown) return undefined;
    const timer = window.setTimeout(() => {
      changed.current = Date.now();
      setShown(value);
    }, Math.max(0, changed.current + ms - Date.now()));
    return () => window.clearTimeout(timer);
  }, [value, shown, ms]);
  return shown;
}
