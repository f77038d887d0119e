/** The episodes that the address asks for, as a long list of which pages are loaded when they are seen. */

import { address, ask, runPath } from "../../lib/api.js";
import { useThrottled } from "../../lib/hooks.js";
import { usePulse } from "../../lib/pulse.js";
import { useCallback, useEffect, useMemo, useRef, useState } from "../../lib/ui.js";
import { filterParameters } from "./filters.js";
import { PAGE, PagedList } from "./pages.js";

/** Episodes of a live run arrive all the time: how many more there are is said at most so often, */
const LIST_MS = 2000;
/** and what sums them all up, facets and the histogram, less often. */
export const SUMMARY_MS = 5000;

/** @typedef {Record<string, any> & {id: string, ref: string, line: number}} Row */

/**
 * @typedef {object} Episodes
 * @property {(Row | null)[]} rows  null where they are not loaded
 * @property {boolean} loading  whether the rows are still those of other filters, or none yet
 * @property {Error | null} error
 * @property {number} fresh  episodes that came since, not in the rows
 * @property {() => void} again  read anew, with what came since
 * @property {(first: number, last: number) => void} need
 */

/** What the address sorts by. @param {import("../../lib/place.js").Place} place */
export function sortOf(place) {
  return { sort: place.get("sort", "arrival"), order: place.get("order", "desc") };
}

/**
 * What was read so far: `seen` are the rows on the screen, which a new version reads again in place.
 * @typedef {{key: string, list: PagedList<Row>, upto: number | null, seen: [number, number]}} Held
 */

/** @param {import("../../lib/place.js").Place} place @returns {Episodes} */
export function useEpisodes(place) {
  const version = useThrottled(usePulse().run?.episodes ?? "", LIST_MS);
  const path = runPath(/** @type {string} */ (place.run), "episodes");
  const parameters = { ...filterParameters(place), ...sortOf(place) };
  const key = address(path, parameters);
  const held = useRef(/** @type {Held} */ ({ key: "", list: new PagedList(PAGE), upto: null, seen: [0, PAGE] }));
  const [round, setRound] = useState(0);
  const [state, setState] = useState({ drawn: 0, fresh: 0, error: /** @type {Error | null} */ (null) });
  const readVersion = useRef("");

  /** @param {number} page @param {AbortSignal} [signal] */
  const read = (page, signal) => ask(address(path, { ...parameters, offset: page * PAGE, limit: PAGE, upto: held.current.key === key ? held.current.upto : null }), { signal });

  useEffect(() => {
    const stop = new AbortController();
    const renewed = held.current.key === key;
    held.current.upto = null;
    ask(address(path, { ...parameters, limit: PAGE }), { signal: stop.signal }).then(
      (said) => {
        const list = new PagedList(PAGE);
        list.put(0, said.rows, said.total);
        held.current = { key, list, upto: said.upto, seen: renewed ? held.current.seen : [0, PAGE] };
        readVersion.current = version;
        setState((last) => ({ drawn: last.drawn + 1, fresh: 0, error: null }));
      },
      (error) => stop.signal.aborted || setState((last) => ({ ...last, error })),
    );
    return () => stop.abort();
  }, [key, round]);

  useEffect(() => {
    const { list, key: of, upto, seen } = held.current;
    if (of !== key || version === "" || version === readVersion.current) return undefined;
    if (upto === null || list.total === 0) {
      // Nothing is on the screen that could move.
      setRound((last) => last + 1);
      return undefined;
    }
    const stop = new AbortController();
    const pages = [...list.pages.keys()].filter((page) => page * PAGE < seen[1] && (page + 1) * PAGE > seen[0]);
    for (const page of pages.length > 0 ? pages : [0]) {
      read(page, stop.signal).then(
        (said) => {
          readVersion.current = version;
          list.put(page, said.rows, said.total);
          setState((last) => ({ drawn: last.drawn + 1, fresh: said.new ?? 0, error: null }));
        },
        () => {},
      );
    }
    return () => stop.abort();
  }, [version, key, state.drawn === 0]);

  const need = useCallback(
    (/** @type {number} */ first, /** @type {number} */ last) => {
      const { list, key: of } = held.current;
      if (of !== key) return;
      held.current.seen = [first, last];
      for (const page of list.missing(first, last)) {
        read(page).then(
          (said) => {
            list.put(page, said.rows, list.total);
            if (held.current.list === list) setState((last) => ({ ...last, drawn: last.drawn + 1 }));
          },
          (error) => {
            list.failed(page);
            if (held.current.list === list) setState((last) => ({ ...last, error }));
          },
        );
      }
    },
    [key],
  );

  const rows = useMemo(() => held.current.list.rows(), [state.drawn]);
  return { rows, loading: held.current.key !== key, error: state.error, fresh: state.fresh, again: useCallback(() => setRound((last) => last + 1), []), need };
}
