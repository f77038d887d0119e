/** The hits of a search over whole logs, asked for until all is searched or there are many. */

import { ApiError, address, ask, runPath } from "../../lib/api.js";
import { useEffect, useRef, useState } from "../../lib/ui.js";

/** Hits after which searching on is asked for by hand. */
const MANY = 2000;

/** @typedef {{hits: any[], done: boolean, scanned: number, total: number, cursor: string | null, error: Error | null}} Found */

/** @type {Found} */
const NOTHING = { hits: [], done: true, scanned: 0, total: 0, cursor: null, error: null };

/**
 * @param {string} run @param {string} text "": nothing is searched @param {boolean} regex @param {number | null} attempt @param {readonly string[]} components
 * @returns {Found & {more: () => void}} `more`: search on
 */
export function useSearch(run, text, regex, attempt, components) {
  const [found, setFound] = useState(NOTHING);
  const more = useRef(() => {});
  const question = JSON.stringify([run, text, regex, attempt, components]);
  useEffect(() => {
    const stop = new AbortController();
    let held = { ...NOTHING, done: text === "" };
    let [most, busy] = [MANY, false];
    const go = async () => {
      if (busy) return;
      busy = true;
      try {
        while (!held.done && held.hits.length < most) {
          const page = await ask(address(runPath(run, "logs", "search"), { q: text, regex, attempt, component: components, cursor: held.cursor }), { signal: stop.signal });
          held = { hits: [...held.hits, ...page.hits].sort(byTime), done: page.done, scanned: held.scanned + page.scanned_bytes, total: page.total_bytes, cursor: page.cursor, error: null };
          setFound(held);
        }
      } catch (error) {
        if (!stop.signal.aborted) setFound({ ...held, done: true, error: error instanceof ApiError ? error : new Error("The search failed.") });
      } finally {
        busy = false;
      }
    };
    more.current = () => {
      most = held.hits.length + MANY;
      void go();
    };
    setFound(held);
    void go();
    return () => stop.abort();
  }, [question]);
  return { ...found, more: () => more.current() };
}

/** @param {any} a @param {any} b */
const byTime = (a, b) => (a.time ?? Infinity) - (b.time ?? Infinity) || a.offset - b.offset;
