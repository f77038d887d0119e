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

/** @param {{current: Element | null}} ref */
export function useNear(ref) {
  const [near, setNear] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    told.set(element, setNear);
    watching().observe(element);
    return () => {
      told.delete(element);
      watching().unobserve(element);
    };
  }, []);
  return near;
}
