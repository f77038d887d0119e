/** The entries that the page holds: a page of them, older ones when somebody scrolls up, newer ones as they are written. */

import { address, ask, runPath } from "../../lib/api.js";
import { usePulse } from "../../lib/pulse.js";
import { useCallback, useEffect, useRef, useState } from "../../lib/ui.js";
import { joined } from "./lines.js";

const PAGE = 300;
/** Entries that are held. Beyond that those farthest from where one reads are let go, and can be asked for again. */
const MOST = 6000;
/** In place of a cursor: there are entries on that side, which were held once. */
const LET_GO = "";

/** @typedef {import("./lines.js").Entry} Entry */
/** @typedef {{at: number} | {file: string, offset: number} | null} Anchor  null: the newest entries */

/**
 * @typedef {object} Feed
 * @property {Entry[]} entries  oldest first
 * @property {number | null} anchor  index of the entry that was asked for
 * @property {string | null} older
 * @property {string | null} newer
 * @property {boolean} atEnd  whether the newest entries are held
 * @property {boolean} loading
 * @property {Error | null} error
 * @property {readonly string[]} trouble
 * @property {number} round  counts the questions that began anew
 */

/** @type {Feed} */
const NOTHING = { entries: [], anchor: null, older: null, newer: null, atEnd: false, loading: true, error: null, trouble: [], round: 0 };

/**
 * @param {string} run
 * @param {Record<string, any>} filter attempt, component, level, q, regex: what entries are wanted
 * @param {Anchor} anchor
 * @returns {Feed & {loadOlder: () => void, loadNewer: () => void, again: () => void}}
 */
export function useFeed(run, filter, anchor) {
  const [feed, setFeed] = useState(NOTHING);
  const [round, setRound] = useState(0);
  const busy = useRef(false);
  const pulse = usePulse();
  const question = JSON.stringify([run, filter, anchor, round]);
  const asked = useRef(question);
  const path = runPath(run, "logs");

  useEffect(() => {
    const stop = new AbortController();
    asked.current = question;
    busy.current = true;
    setFeed((last) => ({ ...last, loading: true, error: null }));
    ask(address(path, { ...filter, ...anchor, limit: PAGE }), { signal: stop.signal }).then(
      (page) => {
        busy.current = false;
        setFeed((last) => ({
          entries: page.entries,
          anchor: page.anchor === null ? null : Math.min(page.anchor, page.entries.length - 1),
          older: page.older,
          newer: page.newer,
          atEnd: anchor === null,
          loading: false,
          error: null,
          trouble: page.trouble,
          round: last.round + 1,
        }));
      },
      (error) => {
        if (stop.signal.aborted) return;
        busy.current = false;
        setFeed((last) => ({ ...NOTHING, loading: false, error, round: last.round + 1 }));
      },
    );
    return () => stop.abort();
  }, [question]);

  const more = useCallback(
    async (/** @type {"before" | "after"} */ side, /** @type {Record<string, any> | null} */ place) => {
      if (busy.current || place === null) return;
      busy.current = true;
      const mine = asked.current;
      try {
        const page = await ask(address(path, { ...filter, ...place, limit: PAGE }));
        if (asked.current === mine) setFeed((last) => grown(last, side, page));
      } catch (error) {
        if (asked.current === mine) setFeed((last) => ({ ...last, error: /** @type {Error} */ (error) }));
      } finally {
        if (asked.current === mine) busy.current = false;
      }
    },
    [question],
  );

  const written = pulse.run?.logs ?? "";
  const heard = useRef("");
  useEffect(() => {
    // What is written while a page is on its way is asked for when that is there.
    if (written === "" || written === heard.current || !feed.atEnd || busy.current) return;
    heard.current = written;
    void more("after", behind(feed));
  }, [written, feed]);
  return {
    ...feed,
    loadOlder: () => void more("before", ahead(feed)),
    loadNewer: () => void (feed.atEnd || more("after", behind(feed))),
    again: () => setRound((last) => last + 1),
  };
}

/** Where older entries are. Those that were let go are found around the first one that is held. @param {Feed} feed */
function ahead(feed) {
  if (feed.older !== LET_GO || feed.entries.length === 0) return feed.older ? { before: feed.older } : null;
  const { file, offset } = feed.entries[0];
  return { file, offset };
}

/** Where newer ones are. @param {Feed} feed */
function behind(feed) {
  if (feed.newer !== LET_GO || feed.entries.length === 0) return feed.newer ? { after: feed.newer } : null;
  const { file, offset } = feed.entries[feed.entries.length - 1];
  return { file, offset };
}

/** A feed with one more page. @param {Feed} feed @param {"before" | "after"} side @param {any} page @returns {Feed} */
function grown(feed, side, page) {
  const trouble = [...new Set([...feed.trouble, ...page.trouble])];
  const all = side === "before" ? joined(page.entries, feed.entries) : joined(feed.entries, page.entries);
  const over = all.length > MOST;
  if (side === "before") {
    const kept = over ? { entries: all.slice(0, MOST), newer: LET_GO, atEnd: false } : { entries: all };
    return { ...feed, ...kept, older: page.older, error: null, trouble };
  }
  const kept = over ? { entries: all.slice(-MOST), older: LET_GO } : { entries: all };
  const atEnd = page.anchor === null && page.complete && page.entries.length < PAGE;
  return { ...feed, ...kept, newer: page.newer, atEnd, error: null, trouble };
}
