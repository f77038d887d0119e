/** What the pages of a run know of it: the header's row and the verdict, asked for once however many parts show them. */

import { runPath } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { usePulse } from "../lib/pulse.js";

/** The run as GET /api/v1/runs/{run} tells of it. @param {string} run */
export function useRun(run) {
  return useData(runPath(run), {}, { version: usePulse().run?.header ?? null });
}

/** Its verdict and findings. @param {string | null} run null: nothing is asked */
export function useVerdict(run) {
  const version = usePulse().run?.verdict ?? null;
  return useData(run === null ? null : runPath(run, "verdict"), {}, { version });
}
