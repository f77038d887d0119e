/**
 * The one thing that is polled: which parts of the run on the screen changed. Everything else is asked for when its
 * version here is another one, so that a tab on a quiet run costs one small request every three seconds.
 */

import { address, ask } from "./api.js";
import { createContext, useContext, useEffect, useState } from "./ui.js";

const SECONDS = 3;
/** Pages on which something moves from one moment to the next ask more often. @type {Record<string, number>} */
const SECONDS_ON = { traces: 1.5, logs: 2 };
const SECONDS_HIDDEN = 10;
/** Missed answers after which what is shown is called stale. */
export const MISSED = 3;

/**
 * @typedef {object} Pulse
 * @property {string} runs  version of the run list
 * @property {{id: string, metrics: string, episodes: string, live: string, logs: string, verdict: string, header: string} | null} run
 * @property {{seq: number, command: any} | null} view  what an agent asked this page to show
 * @property {number} answered  when the server last answered, Unix seconds; 0 before it did
 * @property {number} missed  questions without an answer since
 * @property {Error | null} error
 */

/** @type {Pulse} */
const NONE = { runs: "", run: null, view: null, answered: 0, missed: 0, error: null };

/** @type {import("../../vendor/preact.mjs").Context<Pulse>} */
export const PulseContext = createContext(NONE);

/** @returns {Pulse} */
export function usePulse() {
  return useContext(PulseContext);
}

/**
 * Ask now and then, for as long as the component is mounted. For the frame alone.
 * @param {string | null} run
 * @param {string} page
 * @param {boolean} following whether the page obeys view commands
 * @returns {Pulse}
 */
export function usePolling(run, page, following) {
  const [pulse, setPulse] = useState(NONE);

  useEffect(() => {
    const stop = new AbortController();
    /** @type {number | undefined} */
    let timer;
    const poll = async () => {
      window.clearTimeout(timer);
      try {
        const said = await ask(address("pulse", { run, page, following: following ? null : "false" }), { signal: stop.signal });
        setPulse({ runs: said.runs, run: said.run, view: said.view, answered: Date.now() / 1000, missed: 0, error: null });
      } catch (error) {
        if (stop.signal.aborted) return;
        setPulse((last) => ({ ...last, missed: last.missed + 1, error: /** @type {Error} */ (error) }));
      }
      const seconds = document.hidden ? SECONDS_HIDDEN : (SECONDS_ON[page] ?? SECONDS);
      timer = window.setTimeout(poll, seconds * 1000);
    };
    const woken = () => {
      if (!document.hidden) void poll();
    };
    document.addEventListener("visibilitychange", woken);
    void poll();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", woken);
    };
  }, [run, page, following]);

  // The first answer about another run is not there yet: nothing of the last one's may pass for it.
  return pulse.run !== null && pulse.run.id !== run ? { ...pulse, run: null } : pulse;
}
