/** The overviews of the runs that the page's run is compared with. */

import { address, ask, runPath } from "../../lib/api.js";
import { useEffect, useState } from "../../lib/ui.js";

/** When to ask again for a large file that is still being read. */
const PARTIAL_MS = 1500;

/** @typedef {{overviews: Record<string, any>, failed: Record<string, string>}} Compared */

/**
 * @param {readonly string[]} runs
 * @param {import("../../lib/place.js").Changes} parameters
 * @param {string | null} version of the page's own run: the others are asked again with it
 * @returns {Compared} what is there so far
 */
export function useCompared(runs, parameters, version) {
  const [compared, setCompared] = useState(/** @type {Compared} */ ({ overviews: {}, failed: {} }));
  const urls = runs.map((run) => address(runPath(run, "overview"), parameters));
  useEffect(() => {
    const stop = new AbortController();
    /** @type {number[]} */
    const timers = [];
    setCompared((last) => ({ overviews: only(last.overviews, runs), failed: only(last.failed, runs) }));
    const get = async (/** @type {string} */ run, /** @type {string} */ url) => {
      try {
        const overview = await ask(url, { signal: stop.signal });
        setCompared((last) => ({ overviews: { ...last.overviews, [run]: overview }, failed: without(last.failed, run) }));
        if (overview.partial) timers.push(window.setTimeout(get, PARTIAL_MS, run, url));
      } catch (error) {
        if (stop.signal.aborted) return;
        setCompared((last) => ({ overviews: without(last.overviews, run), failed: { ...last.failed, [run]: /** @type {Error} */ (error).message } }));
      }
    };
    runs.forEach((run, index) => void get(run, urls[index]));
    return () => {
      stop.abort();
      timers.forEach((timer) => window.clearTimeout(timer));
    };
  }, [urls.join(" "), version]);
  return compared;
}

/** @param {Record<string, any>} record @param {string} key */
function without(record, key) {
  return Object.fromEntries(Object.entries(record).filter(([name]) => name !== key));
}

/** @param {Record<string, any>} record @param {readonly string[]} keys */
function only(record, keys) {
  return Object.fromEntries(Object.entries(record).filter(([name]) => keys.includes(name)));
}
