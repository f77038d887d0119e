/** An answer of the server as state of a component. */

import { address, ask } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./ui.js";

/**
 * @template T
 * @typedef {object} Data
 * @property {T | null} data  the newest answer; an older one stays while a newer loads or fails
 * @property {Error | null} error  why the newest question has no answer
 * @property {boolean} loading
 * @property {() => void} again  ask once more
 */

/**
 * The answer of a route, asked again when the path, the parameters or the version change.
 *
 * Data of another path never stays: a run does not show another one's numbers. With `keep`, data of other parameters
 * of the same path stays until the new one is there, dimmed by whoever shows it.
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
  const asked = useRef("");

  const question = `${url} ${version} ${round}`;
  useEffect(() => {
    if (url === null) return undefined;
    const stop = new AbortController();
    asked.current = question;
    ask(url, { signal: stop.signal }).then(
      (data) => {
        // The same answer again is the same object: who shows it has nothing to do.
        setState((last) => ({ of: known, url, data: last.url === url && last.data?.as_of === data.as_of ? last.data : data, error: null }));
        setSettled(question);
      },
      (error) => {
        if (stop.signal.aborted) return;
        setState((last) => ({ ...(last.of === known ? last : { of: known, url: null, data: null }), error }));
        setSettled(question);
      },
    );
    return () => stop.abort();
  }, [question]);

  const again = useCallback(() => setRound((last) => last + 1), []);
  const mine = state.of === known;
  return {
    data: mine ? state.data : null,
    error: mine ? state.error : null,
    loading: url !== null && settled !== question,
    again,
  };
}
