/** One episode: the list it is from, its transcript with what is known of each token, and what is known of it. */

import { runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { count } from "../../lib/format.js";
import { useKeys } from "../../lib/keys.js";
import { useNavigation } from "../../lib/location.js";
import { usePulse } from "../../lib/pulse.js";
import { html, useEffect, useMemo } from "../../lib/ui.js";
import { Link } from "../../parts/link.js";
import { Failed } from "../../parts/states.js";
import { useEpisodes } from "../traces/episodes.js";
import { Agents, Branches, Title, Views } from "./head.js";
import { Beside, EpisodeList } from "./list.js";
import { Metadata } from "./metadata.js";
import { episodePlace, listPlace } from "./places.js";
import { Rendered } from "./rendered.js";
import { Shared } from "./shared.js";
import { Timing } from "./timing.js";
import { Transcript } from "./transcript_view.js";
import { oneLine, visibleText } from "./visible.js";

export function Viewer() {
  const { place } = useNavigation();
  return place.get("live") !== "" && place.get("episode") === "" ? html`<${LiveViewer} />` : html`<${EpisodeViewer} />`;
}

function EpisodeViewer() {
  const { place, go } = useNavigation();
  const pulse = usePulse();
  const run = /** @type {string} */ (place.run);
  const wanted = place.get("episode");
  const { data, error, again } = useData(runPath(run, "episodes", wanted), {}, { version: pulse.run?.episodes, keep: false });
  const policies = useData(data ? runPath(run, "episodes", wanted, "policies") : null, {}, { keep: false });
  const episodes = useEpisodes(place);
  const at = useMemo(() => indexIn(episodes.rows, wanted, place.number("row")), [episodes.rows, wanted]);
  const beside = (/** @type {1 | -1} */ by) => {
    const row = at === null ? null : episodes.rows[at + by];
    // Without the list, in the order of arrival: the newest first, as the list has it.
    const ref = row?.ref ?? (at === null ? data?.neighbours?.[by > 0 ? "previous" : "next"] : null);
    if (ref) go(episodePlace(place, ref, row && at !== null ? at + by : null), { replace: true });
  };
  useKeys([
    { keys: "j", about: "Next episode", run: () => beside(1) },
    { keys: "k", about: "Episode before", run: () => beside(-1) },
    { keys: "Escape", about: "Back to the list", run: () => go(listPlace(place)) },
  ]);
  return html`<div class="vw">
    <${EpisodeList} episodes=${episodes} at=${at} wanted=${wanted} onBeside=${beside} />
    ${error && !data && html`<div class="mid"><${Failed} error=${error} what="The episode could not be opened." again=${again} /><p class="state"><${Link} to=${listPlace(place)}>All episodes</${Link}></p></div>`}
    ${!data && !error && html`<div class="mid"><div class="vh1"><h1>Episode <span class="waiting"></span></h1></div></div><aside class="md"></aside>`}
    ${data && html`<${Opened} key=${data.row.ref} data=${data} policies=${policies.data} onBeside=${beside} />`}
  </div>`;
}

/** Where an episode is in the list: where it was opened, else wherever it is loaded. @param {readonly (any | null)[]} rows @param {string} ref @param {number | null} hint */
function indexIn(rows, ref, hint) {
  if (hint !== null && rows[hint]?.ref === ref) return hint;
  const found = rows.findIndex((row) => row?.ref === ref || row?.id === ref);
  return found < 0 ? null : found;
}

/** A rollout in flight, as far as it has come. */
function LiveViewer() {
  const { place, go } = useNavigation();
  const pulse = usePulse();
  const id = place.get("live");
  const { data, error, again } = useData(runPath(/** @type {string} */ (place.run), "live", id), {}, { version: pulse.run?.live });
  useKeys([{ keys: "Escape", about: "Back to the list", run: () => go(listPlace(place)) }]);
  const episode = useMemo(() => data && liveEpisode(data), [data]);
  const ended = error && !data ? error : null;
  return html`<div class="vw live">
    ${ended && html`<div class="mid"><${Failed} error=${ended} what="This rollout is not in flight any more." again=${again} />
      <p class="state row"><${Link} to=${place.with({ live: null, episode: id })}>Open it as an episode</${Link}><${Link} to=${listPlace(place)}>All episodes</${Link}></p></div>`}
    ${!data && !ended && html`<div class="mid"><div class="vh1"><h1>In flight <span class="waiting"></span></h1></div></div>`}
    ${episode && html`<${Opened} key=${id} data=${episode} policies=${null} over=${error !== null} />`}
  </div>`;
}

/** A rollout in flight in the form of an episode. @param {any} said */
function liveEpisode({ dispatch, task, trace, pending }) {
  const waiting = pending.map((/** @type {any} */ message, /** @type {number} */ nth) => ({ index: trace.nodes_total + nth, parent: null, sampled: false, tokens: 0, call: null, timestamp: null, answers: null, waiting: true, ...message }));
  return {
    live: true,
    row: { ref: trace.id, line: null, env: dispatch.env ?? null, task: dispatch.task ?? task?.key ?? null, group: dispatch.group ?? null, kind: dispatch.kind ?? null, ship_step: null, dispatch_step: dispatch.step ?? null, dispatch: dispatch.started ?? null, arrival: null, reward: trace.reward, advantage: null, lag: null, note: null, stop_condition: null, policy_start: dispatch.policy_version ?? null, policy_end: null, turns: null, branches: trace.branches_total, input_tokens: trace.usage.input_tokens, output_tokens: trace.usage.output_tokens },
    task: { key: task?.key ?? null, type: task?.type ?? null, data: task?.data ?? null },
    errors: [], problems: [], judge: [], bound: null, step: null, policy: null,
    traces: [{ ...trace, nodes: [...trace.nodes, ...waiting] }],
  };
}

/** Traces are named by their place, or by their id. @param {any} data @param {string} named */
function traceOf(data, named) {
  const found = data.traces.findIndex((/** @type {any} */ trace, /** @type {number} */ index) => String(index) === named || trace.id === named);
  return Math.max(0, found);
}

/** The named branch; without a name the first that a named message is in. @param {readonly import("./transcript.js").Branch[]} branches @param {string} named @param {number | null} node */
function branchOf(branches, named, node) {
  const found = named === "" && node !== null ? branches.find(({ nodes }) => nodes?.includes(node)) : branches[Number(named) || 0];
  return found ?? branches[0] ?? null;
}

/** @param {{data: any, policies: any, over?: boolean, onBeside?: (by: 1 | -1) => void}} properties */
function Opened({ data, policies, over = false, onBeside }) {
  const { place } = useNavigation();
  const seen = useMemo(() => new Shared(/** @type {import("./readout.js").Seen | null} */ (null)), []);
  const index = traceOf(data, place.get("trace"));
  const trace = data.traces[index];
  const view = place.get("view");
  const named = place.get("branch");
  const branch = !trace || named === "all" ? null : branchOf(trace.branches, named, place.number("node"));
  useEffect(() => seen.set(null), [index, branch?.index, view]);
  useEffect(() => {
    document.title = `Episode ${data.row.line === null ? "in flight" : count(data.row.line)}`;
  }, [data.row.line]);
  if (!trace) return html`<div class="mid"><${Title} data=${data} over=${over} /><p class="state dim">The record of this episode holds no trace${data.errors.length ? ": it failed before one began" : ""}.</p><${Errors} errors=${data.errors} /></div><${Metadata} data=${data} trace=${null} seen=${null} />`;
  return html`<div class="mid">
      <div class="vh1"><${Link} class=${data.live ? "" : "only-m"} to=${listPlace(place)}>All episodes</${Link}>${onBeside && html`<${Beside} class="only-m" onBeside=${onBeside} />`}<${Title} data=${data} over=${over} /><span class="grow"></span><${Views} view=${view} live=${data.live === true} /></div>
      <${Errors} errors=${[...data.errors, ...trace.errors]} problems=${data.problems} ok=${data.row.ok} />
      <div class="vh2"><${Agents} traces=${data.traces} index=${index} />${trace.branches.length > 0 && view !== "timeline" && html`<span class="vr" aria-hidden="true"></span><${Branches} trace=${trace} named=${branch === null ? "all" : String(branch.index)} rendered=${view === "rendered"} />`}</div>
      ${view === "timeline"
        ? html`<div class="ts"><${Timing} trace=${trace} policies=${policies} large /></div>`
        : view === "rendered"
          ? html`<${Rendered} episode=${data.row.ref} trace=${index} branch=${(branch ?? trace.branches[0])?.index ?? 0} />`
          : html`<${Transcript} key=${`${index} ${branch?.index ?? "all"}`} data=${data} trace=${trace} index=${index} branch=${branch} seen=${seen} />
              <${Timing} trace=${trace} policies=${policies} />`}
    </div>
    <${Metadata} data=${data} trace=${trace} seen=${view === "" && !data.live ? seen : null} />`;
}

/** What went wrong, and whether it was overcome. @param {{errors: readonly any[], problems?: readonly string[], ok?: boolean | null}} properties */
function Errors({ errors, problems = [], ok = null }) {
  if (errors.length === 0 && problems.length === 0) return null;
  return html`<div class="errs" role="note">
    ${errors.slice(0, 5).map((error, index) => html`<details key=${index}><summary class=${ok ? "warn" : "bad"}><b>${oneLine(error.type ?? "Error", 60)}</b> ${oneLine(error.message ?? "", 300)}${ok ? html` <span class="dim">(recovered)</span>` : ""}</summary>${error.traceback && html`<pre class="mono">${visibleText(error.traceback)}</pre>`}</details>`)}
    ${errors.length > 5 && html`<p class="dim">and ${count(errors.length - 5)} more</p>`}
    ${problems.map((problem) => html`<p key=${problem} class="warn">${visibleText(problem)}</p>`)}
  </div>`;
}
