/** The list of episodes: filters on top, what is in flight, the rows, and the group of the chosen one below. */

import { runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { useThrottled } from "../../lib/hooks.js";
import { useKeys } from "../../lib/keys.js";
import { useNavigation } from "../../lib/location.js";
import { usePulse } from "../../lib/pulse.js";
import { html, useMemo, useRef, useState } from "../../lib/ui.js";
import { RunHeader } from "../../parts/header.js";
import { Empty, Failed } from "../../parts/states.js";
import { Table } from "../../parts/table.js";
import { longestOf } from "./bars.js";
import { columnsOf } from "./columns.js";
import { sortOf, SUMMARY_MS, useEpisodes } from "./episodes.js";
import { activeFilters, filterParameters, walkedStep } from "./filters.js";
import { GroupPanel } from "./group.js";
import { Hits } from "./hits.js";
import { InFlight, LIVE_ROW, LiveBody, liveRows, useLive } from "./live.js";
import { Nothing } from "./nothing.js";
import { Toolbar } from "./toolbar.js";

export function EpisodesView() {
  const { place, go } = useNavigation();
  const pulse = usePulse();
  const run = /** @type {string} */ (place.run);
  const facets = useData(runPath(run, "episodes", "facets"), filterParameters(place), { version: useThrottled(pulse.run?.episodes, SUMMARY_MS) });
  const episodes = useEpisodes(place);
  const [all, setAll] = useState(false);
  const live = useLive(run, pulse.run?.live ?? "");
  const search = place.get("text");
  useStepKeys(facets.data);
  const chosen = useChosen(run, place.get("sel"), episodes.rows);
  return html`<div class="traces">
    <h1 class="vh">Traces</h1>
    <${RunHeader} />
    <${Toolbar} facets=${facets.data} fresh=${search ? 0 : episodes.fresh} onFresh=${episodes.again} />
    ${search
      ? html`<${Hits} text=${search} />`
      : html`<${InFlight} live=${live} all=${all} onAll=${() => setAll(!all)} />
          <${List} episodes=${episodes} facets=${facets} live=${live} all=${all} />
          <${GroupPanel} row=${chosen} onClose=${() => go(place.with({ sel: null, steps: null }), { replace: true })} />`}
  </div>`;
}

/**
 * The row that the address chooses: of the list, or read by itself when it is in none of the pages that are loaded.
 * @param {string} run @param {string} sel @param {readonly (any | null)[]} rows
 */
function useChosen(run, sel, rows) {
  const found = useMemo(() => (sel === "" ? null : (rows.find((row) => row?.ref === sel) ?? null)), [sel, rows]);
  const asked = useData(sel !== "" && found === null && rows.length > 0 ? runPath(run, "episodes", sel) : null);
  return found ?? asked.data?.row ?? null;
}

/** `[` and `]` walk the steps of the run. @param {any} facets */
function useStepKeys(facets) {
  const { place, go } = useNavigation();
  const walk = (/** @type {1 | -1} */ by) => {
    // The steps are those of the whole run, not of what is filtered.
    const step = walkedStep(place.get("step"), facets?.steps ?? null, by);
    if (step !== null) go(place.with({ step, sel: null }), { replace: true });
  };
  useKeys([
    { keys: "[", about: "The step before", run: () => walk(-1) },
    { keys: "]", about: "The step after", run: () => walk(1) },
  ]);
}

/** @param {{episodes: import("./episodes.js").Episodes, facets: import("../../lib/data.js").Data<any>, live: import("./live.js").Live, all: boolean}} properties */
function List({ episodes, facets, live, all }) {
  const { place, go } = useNavigation();
  const { rows, loading, error, again, need } = episodes;
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const { sort, order } = sortOf(place);
  const sel = place.get("sel");
  const [moved, setMoved] = useState(/** @type {number | null} */ (null));
  const selected = useMemo(() => (sel === "" ? -1 : rows.findIndex((row) => row?.ref === sel)), [rows, sel]);
  const active = Math.min(rows.length - 1, moved ?? Math.max(0, selected));
  const chosen = selected >= 0 ? rows[selected] : null;
  const group = chosen?.group ?? null;
  const longest = useMemo(() => longestOf(rows.slice(0, 4000).map((row) => row?.duration)), [rows]);
  const columns = useMemo(() => columnsOf(place, { longest, rewards: facets.data?.reward ?? null }), [place, longest, facets.data?.reward?.[0], facets.data?.reward?.[1]]);
  const lead = liveRows(live, all).length;

  const move = (/** @type {number} */ index) => {
    setMoved(index);
    const row = rows[index];
    if (row && sel !== "") go(place.with({ sel: row.ref }), { replace: true });
  };
  const open = (/** @type {import("./episodes.js").Row} */ row, /** @type {number} */ index) => go(place.with({ episode: row.ref, row: index, sel: row.ref }));
  const pick = (/** @type {import("./episodes.js").Row} */ row) => go(place.with({ sel: row.ref === sel ? null : row.ref }), { replace: true });
  const step = (/** @type {number} */ by) => {
    move(Math.max(0, Math.min(rows.length - 1, active + (moved === null && selected < 0 ? 0 : by))));
    if (!box.current?.contains(document.activeElement)) /** @type {HTMLElement | null} */ (box.current?.querySelector('tr[tabindex="0"]'))?.focus({ preventScroll: true });
  };
  useKeys([
    { keys: "j", about: "Next row", run: () => step(1) },
    { keys: "k", about: "Row before", run: () => step(-1) },
    { keys: "x", about: "Choose the row: its group is shown below", run: () => rows[active] && pick(/** @type {any} */ (rows[active])) },
    { keys: "End", about: "Newest episodes", run: () => go(place.with({ sort: null, order: null, sel: null })) },
    { keys: "Escape", about: "Put the chosen row down", run: () => sel && go(place.with({ sel: null }), { replace: true }), hidden: true },
  ]);

  if (error && rows.length === 0) return html`<${Failed} error=${error} what="The episodes could not be read." again=${again} />`;
  const sorted = (/** @type {string} */ column) => {
    const descending = sort === column ? order === "asc" : !["env", "task", "stop"].includes(column);
    go(place.with({ sort: column === "arrival" && descending ? null : column, order: descending ? null : "asc", row: null }), { replace: true });
  };
  const empty = loading ? html`<p class="state faint">Reading episodes</p>` : activeFilters(place).length > 0 ? html`<${Nothing} facets=${facets.data} />` : html`<${NoEpisodes} live=${live} />`;
  return html`<div class="list" ref=${box}>
    <${Table} label="Episodes" class=${loading && rows.length > 0 ? "eps old" : "eps"} columns=${columns} rows=${rows} id=${(/** @type {any} */ row) => String(row.line)} height=${28}
      sort=${sort} descending=${order === "desc"} onSort=${sorted} active=${active} onActive=${move} onOpen=${open} onPick=${pick} onNeed=${need}
      rowClass=${(/** @type {any} */ row) => (row.ref === sel ? "sel on" : group !== null && row.group === group && row.env === chosen?.env ? "sel" : "")}
      lead=${lead > 0 && html`<${LiveBody} live=${live} all=${all} place=${place} longest=${longest} />`} leadHeight=${lead * LIVE_ROW} empty=${empty} />
  </div>`;
}

/** @param {{live: import("./live.js").Live}} properties */
function NoEpisodes({ live }) {
  const flying = Object.values(live.stages).reduce((sum, many) => sum + many, 0);
  return html`<${Empty}>No episodes yet. ${flying > 0 ? "The first of those in flight appears here when it is scored." : "The first arrive when the engines are ready and the orchestrator has sent rollouts out."}</${Empty}>`;
}
