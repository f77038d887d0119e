/** What the pages of a run know of it: the header's row and the verdict, asked for once however many parts show them. */

import { runPath } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { usePulse } from "../lib/pulse.js";
import { useMemo } from "../lib/ui.js";

/** The run as GET /api/v1/runs/{run} tells of it. @param {string} run */
export function useRun(run) {
  return useData(runPath(run), {}, { version: usePulse().run?.header ?? null });
}

/** Its verdict and findings. @param {string | null} run null: nothing is asked */
export function useVerdict(run) {
  const version = usePulse().run?.verdict ?? null;
  return useData(run === null ? null : runPath(run, "verdict"), {}, { version });
}

/**
 * The names of a run and of those it is compared with, as soon as the list of runs is there; their ids until then.
 * @param {string} own @param {readonly string[]} others @returns {Record<string, string>}
 */
export function useRunNames(own, others) {
  const name = useRun(own).data?.run.name;
  const rows = useData(others.length ? "runs" : null).data?.rows ?? null;
  return useMemo(() => {
    const named = new Map((rows ?? []).map((/** @type {any} */ row) => [row.id, row.name]));
    const ids = [own, ...others];
    return Object.fromEntries(ids.map((id) => [id, (id === own ? name : named.get(id)) ?? id.replace(/~[0-9a-f]{8}$/, "")]));
  }, [rows, name, own, others.join(" ")]);
}
