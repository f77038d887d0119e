/** All runs: is each alive and healthy, how far, how good. Several can be laid beside each other. */

import { useData } from "../../lib/data.js";
import { plural } from "../../lib/format.js";
import { useRested, useThrottled } from "../../lib/hooks.js";
import { useKeys } from "../../lib/keys.js";
import { useNavigation } from "../../lib/location.js";
import { usePulse } from "../../lib/pulse.js";
import { html, useEffect, useMemo, useRef, useState } from "../../lib/ui.js";
import { Empty, Failed, Waiting } from "../../parts/states.js";
import { Table } from "../../parts/table.js";
import { columns } from "./columns.js";
import { ComparePanel, MOST_RUNS } from "./compare.js";
import { Filters } from "./filters.js";
import { COLUMNS, descendsFirst, fitting, sorted, strictest } from "./rows.js";

/** @typedef {import("./rows.js").Run} Run */

const ROW = 44;
const FRESH_MS = 2000;
const WORDS = /** @type {Record<string, string>} */ ({ text: "the search", health: "the health", phase: "the phase", dir: "the directory" });

export default function Page() {
  const { place, go } = useNavigation();
  const version = useThrottled(usePulse().runs || null, FRESH_MS);
  const { data, error, again } = useData("runs", {}, { version });
  const [text, setText] = useState(place.get("q"));
  const rested = useRested(text);
  useEffect(() => {
    if (rested !== place.get("q")) go(place.with({ q: rested }), { replace: true });
  }, [rested]);
  const filters = { text, health: place.get("health"), phase: place.get("phase"), dir: place.get("dir") };
  const sort = COLUMNS.includes(place.get("sort")) ? place.get("sort") : "age";
  const descending = place.get("order", descendsFirst(sort) ? "desc" : "asc") === "desc";
  const selected = place.all("select").slice(0, MOST_RUNS);
  const set = (/** @type {import("../../lib/place.js").Changes} */ changes) => go(place.with(changes), { replace: true });

  const all = /** @type {Run[]} */ (data?.rows ?? []);
  const rows = useMemo(() => sorted(fitting(all, filters), sort, descending), [data, ...Object.values(filters), sort, descending]);
  const [active, setActive] = useActive(rows);
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const select = (/** @type {string} */ id, /** @type {boolean} */ on) => set({ select: on ? [...selected, id].slice(-MOST_RUNS) : selected.filter((one) => one !== id) });
  const comparing = place.flag("compare") && selected.length > 1;
  const compare = () => selected.length > 1 && set({ compare: comparing ? null : "1" });
  const walk = (/** @type {number} */ by) => {
    const next = Math.min(rows.length - 1, Math.max(0, active + by));
    setActive(next);
    /** @type {HTMLElement | null} */ (box.current?.querySelector(`tr[data-index="${next}"]`))?.focus();
  };
  useKeys([
    { keys: "j", about: "Next run", run: () => walk(1) },
    { keys: "k", about: "Run before", run: () => walk(-1) },
    { keys: "x", about: "Select the run for comparison", run: () => rows[active] && select(rows[active].id, !selected.includes(rows[active].id)) },
    { keys: "c", about: "Compare the selected runs", run: compare },
  ]);
  const cells = useMemo(() => columns(place, new Set(selected), select), [place]);
  const filter = (/** @type {Partial<import("./rows.js").Filters>} */ { text: typed, ...changes }) => (typed === undefined ? set(changes) : setText(typed));

  return html`<div class="runs-page ${comparing ? "comparing" : ""}">
    <h1 class="vh">Runs</h1>
    <${Filters} runs=${all} known=${data !== null} dirs=${data?.dirs ?? []} filters=${filters} onFilter=${filter} selected=${selected.length} onClear=${() => set({ select: null, compare: null })} onCompare=${compare} comparing=${comparing} />
    <div class="runs-box ${error && data ? "old" : ""}" ref=${box}>
      ${data === null && error
        ? html`<${Failed} error=${error} what="The runs could not be listed." again=${again} />`
        : html`<${Table} class="runs" label="Runs" columns=${cells} rows=${data === null ? LOADING : rows} id=${(/** @type {Run} */ run) => run.id} height=${ROW} sort=${sort} descending=${descending}
            onSort=${(/** @type {string} */ column) => set({ sort: column, order: column === sort ? (descending ? "asc" : "desc") : null })}
            active=${active} onActive=${setActive} onOpen=${(/** @type {Run} */ run) => go(place.to("overview", { run: run.id }))} rowClass=${(/** @type {Run} */ run) => (selected.includes(run.id) ? "sel" : "")}
            empty=${html`<${Nothing} data=${data} filters=${filters} all=${all} onClear=${(/** @type {string | null} */ name) => filter(name === "text" ? { text: "" } : name ? { [name]: "" } : {})} />`} />`}
    </div>
    ${data?.problems.length > 0 && html`<details class="problems small"><summary>${plural(data.problems.length, "problem")} while looking for runs</summary><ul>${data.problems.map((/** @type {string} */ problem) => html`<li key=${problem}>${problem}</li>`)}</ul></details>`}
    ${data?.truncated && html`<p class="small faint truncated">Only the first ${data.rows.length} runs are listed.</p>`}
    ${comparing && html`<${ComparePanel} runs=${selected} version=${version} />`}
  </div>`;
}

/** Rows that are on their way. */
const LOADING = Object.freeze(new Array(12).fill(null));

/** The row of the tab stop: it stays with its run when others come before it. @param {readonly Run[]} rows @returns {[number, (index: number) => void]} */
function useActive(rows) {
  const [id, setId] = useState("");
  const index = rows.findIndex((run) => run.id === id);
  return [Math.max(0, index), (next) => setId(rows[next]?.id ?? "")];
}

/** Why there is no row. @param {{data: any, filters: import("./rows.js").Filters, all: readonly Run[], onClear: (name: string | null) => void}} properties */
function Nothing({ data, filters, all, onClear }) {
  if (data === null) return html`<p class="state"><${Waiting} /></p>`;
  const worst = all.length ? strictest(all, filters) : null;
  if (worst) return html`<div class="state"><p>No run fits: ${WORDS[worst]} leaves out the most.</p><button type="button" class="btn" onClick=${() => onClear(worst)}>Clear ${WORDS[worst]}</button></div>`;
  if (data.scanning) return html`<${Empty}>Looking for runs below ${data.dirs.join(", ")}.</${Empty}>`;
  return html`<${Empty}>No runs below ${data.dirs.join(", ") || "any directory"} yet. A run appears here when it has written its first file.</${Empty}>`;
}
