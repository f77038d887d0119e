/** An answer of the server as state of a component. */

import { address, ask } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./ui.js";

/**
 * @template T
 * @typedef {object} Data
 * @property {T | null} data  the newest answer; an older one stays while a newer loads or fails
 * @property {Error | null} error  why the newest question has no answer
 * @property {boolean} loading  the answer to this question was never there yet; not: it is asked for anew
 * @property {() => void} again  ask once more
 */

/**
 * The answer of a route, asked again when the path, the parameters or the version change.
 *
 * Data of another path never stays: a run does not show another one's numbers. With `keep`, data of other parameters
 * of the same path stays until the new one is there, dimmed by whoever shows it. A version that changes while an
 * answer is on its way lets it come, and asks once more then: what changes faster than it is answered is still seen.
 * @template [T=any]
 * @param {string | null} path below api/v1; null: nothing is asked
 * @param {import("./place.js").Changes} [parameters]
 * @param {{version?: unknown, keep?: boolean}} [options]
 * @returns {Data<T>}
 */
export function useData(path, parameters = {}, { version = null, keep = true } = {}) {
  const url = path === null ? null : address(path, parameters);
  const known = keep ? path : url;
  const [state, setState] = useState(/** @type {{of: string | null, url: string | null, data: any, error: Error | null}} */ ({
    of: null,
    url: null,
    data: null,
    error: null,
  }));
  const [settled, setSettled] = useState(/** @type {string | null} */ (null));
  const [round, setRound] = useState(0);
  const asking = useRef(() => {});

  const question = `${url} ${round}`;
  useEffect(() => {
    if (url === null) return undefined;
    const stop = new AbortController();
    let [busy, onceMore] = [false, false];
    const go = async () => {
      if (busy) {
        onceMore = true;
        return;
      }
      [busy, onceMore] = [true, false];
      try {
        const data = await ask(url, { signal: stop.signal });
        // The same answer again is the same object: who shows it has nothing to do.
        setState((last) => ({ of: known, url, data: last.url === url && last.data?.as_of === data.as_of ? last.data : data, error: null }));
      } catch (error) {
        if (stop.signal.aborted) return;
        setState((last) => ({ ...(last.of === known ? last : { of: known, url: null, data: null }), error: /** @type {Error} */ (error) }));
      }
      if (stop.signal.aborted) return;
      setSettled(question);
      busy = false;
      if (onceMore) void go();
    };
    asking.current = () => void go();
    return () => {
      asking.current = () => {};
      stop.abort();
    };
  }, [question]);
  useEffect(() => asking.current(), [question, version]);

  const again = useCallback(() => setRound((last) => last + 1), []);
  const mine = state.of === known;
  return {
    data: mine ? state.data : null,
    error: mine ? state.error : null,
    loading: url !== null && settled !== question,
    again,
  };
}
