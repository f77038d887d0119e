/** Whether an element is on the screen or near it: what is far is not drawn. */

import { useEffect, useState } from "../lib/ui.js";

/** @type {Map<Element, (near: boolean) => void>} */
const told = new Map();
/** @type {IntersectionObserver | null} */
let observer = null;

/** One observer for all charts. */
function watching() {
  observer ??= new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => told.get(target)?.(isIntersecting)), { rootMargin: "600px 0px" });
  return observer;
}

/** @param {{current: Element | null}} ref @param {boolean} eager from when there is time, always */
export function useNear(ref, eager) {
  const [near, setNear] = useState(false);
  const [had, setHad] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    told.set(element, setNear);
    watching().observe(element);
    const idle = eager ? whenIdle(() => setHad(true)) : null;
    return () => {
      told.delete(element);
      watching().unobserve(element);
      idle?.();
    };
  }, []);
  return near || had;
}

/** @param {() => void} run @returns {() => void} not after all */
function whenIdle(run) {
  // Safari has no idle callbacks.
  if (!window.requestIdleCallback) {
    const timer = window.setTimeout(run, 200);
    return () => window.clearTimeout(timer);
  }
  const handle = window.requestIdleCallback(run);
  return () => window.cancelIdleCallback(handle);
}
