/** What the pages of a run know of it: the header's row, the verdict, the names of runs. */

import { runPath } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { useThrottled } from "../lib/hooks.js";
import { usePulse } from "../lib/pulse.js";
import { useMemo } from "../lib/ui.js";

/** A live run's counters move all the time: what shows them is read anew at most so often. */
const FRESH_MS = 5000;

/** The run as GET /api/v1/runs/{run} tells of it. @param {string} run */
export function useRun(run) {
  return useData(runPath(run), {}, { version: useThrottled(usePulse().run?.header ?? null, FRESH_MS) });
}

/** Its verdict and findings. @param {string | null} run null: nothing is asked */
export function useVerdict(run) {
  const version = usePulse().run?.verdict ?? null;
  return useData(run === null ? null : runPath(run, "verdict"), {}, { version });
}

/**
 * The names of a run and of those it is compared with, as soon as the list of runs is there; until then what their ids say.
 * @param {string} own @param {readonly string[]} others @returns {Record<string, string>}
 */
export function useRunNames(own, others) {
  const rows = useData(others.length ? "runs" : null).data?.rows ?? null;
  return useMemo(() => {
    const named = new Map((rows ?? []).map((/** @type {any} */ row) => [row.id, row.name]));
    return Object.fromEntries([own, ...others].map((id) => [id, named.get(id) ?? id.replace(/~[0-9a-f]{8}$/, "")]));
  }, [rows, own, others.join(" ")]);
}
