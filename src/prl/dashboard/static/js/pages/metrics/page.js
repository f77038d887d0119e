/** Every metric of a run: as a tree or found by search, on any axis, beside other runs. */

import { CursorContext } from "../../charts/cursor.js";
import { shortNames } from "../../charts/labels.js";
import { placesOf, startOf } from "../../charts/marks.js";
import { useChartFrame, useChartState, useMetricsVersion, usePinnedCursor } from "../../charts/state.js";
import { ComparedRuns, Toolbar } from "../../charts/toolbar.js";
import { runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { count, plural } from "../../lib/format.js";
import { useRested } from "../../lib/hooks.js";
import { useKeys } from "../../lib/keys.js";
import { useNavigation } from "../../lib/location.js";
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../../lib/ui.js";
import { Check, Search } from "../../parts/controls.js";
import { RunHeader } from "../../parts/header.js";
import { Link } from "../../parts/link.js";
import { useRunNames } from "../../parts/run.js";
import { Empty, Failed, Waiting } from "../../parts/states.js";
import { found, grouped, metricsOf, treeOf } from "./keys.js";
import { SeriesLoader } from "./loader.js";
import { meaningOf } from "./meanings.js";
import { MetricChart } from "./metric.js";
import { Tree } from "./tree.js";

const LARGE = 300;
/** @type {readonly import("./meanings.js").Meaning[]} */
const NO_MEANINGS = Object.freeze([]);
/** @type {[number, number]} */
const NOTHING = [Infinity, -Infinity];

export default function Page() {
  const { place } = useNavigation();
  const run = /** @type {string} */ (place.run);
  const version = useMetricsVersion();
  const { data, error, again } = useData(runPath(run, "metrics", "keys"), {}, { version });
  const metrics = useMemo(() => metricsOf(data?.series ?? []), [data]);
  return html`<${RunHeader} />
    ${data === null && error ? html`<${Failed} error=${error} what="The metrics could not be read." again=${again} />` : html`<${Body} run=${run} data=${data} metrics=${metrics} version=${version} />`}`;
}

/** @param {{run: string, data: any, metrics: import("./keys.js").Metric[], version: string | null}} properties */
function Body({ run, data, metrics, version }) {
  const { place, go } = useNavigation();
  const state = useChartState();
  const cursor = usePinnedCursor();
  const slider = useRef(/** @type {HTMLElement | null} */ (null));
  const [text, setText] = useState(place.get("q"));
  const rested = useRested(text);
  useEffect(() => {
    if (rested !== place.get("q")) go(place.with({ q: rested }), { replace: true });
  }, [rested]);
  const filter = { text: rested, below: place.get("below"), all: place.flag("all") };
  const names = useRunNames(run, state.compare);
  const { frame, marks, start, onLoad } = useFrame(state, data, slider);
  const sources = useSources([run, ...state.compare], names, state, start, version);
  const panels = useData("panels").data;
  /** @type {readonly import("./meanings.js").Meaning[]} */
  const meanings = panels?.metrics ?? NO_MEANINGS;

  const wanted = place.all("key").map((name) => metricNamed(metrics, name));
  const keys = wanted.filter((metric) => metric !== null);
  const listed = useMemo(() => found(metrics, filter), [metrics, ...Object.values(filter)]);
  const groups = useMemo(() => grouped(listed), [listed]);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useKeys([{ keys: "/", about: "Search the keys", run: () => input.current?.focus() }]);
  const chart = (/** @type {import("./keys.js").Metric} */ metric, /** @type {number} */ height, /** @type {string} */ title) =>
    html`<${MetricChart} key=${metric.key} metric=${metric} title=${title} meaning=${meaningOf(meanings, metric.key)} sources=${sources} frame=${frame} height=${height} onLoad=${onLoad}
      to=${height === LARGE ? null : place.with({ key: metric.key, at: cursor.pinned })} />`;

  // Hundreds of charts: they are made anew only when something of them changes.
  const sections = useMemo(
    () =>
      (keys.length === 0 ? groups : groups.filter(([, members]) => keys.some((metric) => members.includes(metric)))).map(
        ([group, members]) => html`<section key=${group} aria-label=${group || "Keys without a group"}>
          <div class="sec"><h2 class="mono">${group || "no group"}</h2><span class="faint">${plural(members.length, "key")}</span></div>
          <div class="charts">${members.map((metric) => chart(metric, 132, group ? metric.key.slice(group.length + 1) : metric.key))}</div>
        </section>`,
      ),
    [groups, keys.map(({ key }) => key).join("\n"), sources, frame, meanings, place],
  );

  return html`<${CursorContext.Provider} value=${cursor}><div class="metrics-page">
    <aside class="keys" aria-label="Keys">
      <${Search} label="Find keys" value=${text} input=${input} hint=${html`<kbd>/</kbd>`} onChange=${setText} />
      <p class="small faint counts">${data === null ? html`<${Waiting} width=${8} />` : `${count(listed.length)} of ${plural(metrics.length, "key")}`}</p>
      <${Tree} branches=${useMemo(() => treeOf(found(metrics, { ...filter, below: "" })), [metrics, filter.text, filter.all])} below=${filter.below} keys=${keys.map(({ key }) => key)} allOpen=${filter.text !== ""}
        placeOf=${(/** @type {string} */ path, /** @type {boolean} */ leaf) => (leaf ? place.with({ key: path }) : place.with({ below: path === filter.below ? null : path, key: null }))} />
    </aside>
    <div class="keys-charts">
      <${Toolbar} state=${state} range=${frame.range} marks=${marks} start=${start} slider=${slider} hint=${false} more=${html`
        <${Check} checked=${state.log} onChange=${(/** @type {boolean} */ on) => state.set({ log: on ? "1" : null })}>Log</${Check}>
        <${Check} checked=${filter.all} title="Also what the bands of other charts show: p10, p90, min, max" onChange=${(/** @type {boolean} */ on) => state.set({ all: on ? "1" : null })}>All statistics</${Check}>`} />
      <${ComparedRuns} state=${state} own=${run} names=${names} failed=${{}} />
      <${Troubles} data=${data} missing=${data === null || data.partial ? [] : place.all("key").filter((_, index) => wanted[index] === null)} />
      ${keys.length > 0 && html`<section class="large" aria-label="Chosen keys"><div class="sec"><h2>${keys.length === 1 ? "Chosen key" : `${keys.length} chosen keys`}</h2><${Link} to=${place.with({ key: null })}>Show all keys</${Link}></div>
        <div class="charts one">${keys.map((metric) => chart(metric, LARGE, metric.key))}</div></section>`}
      ${keys.length === 0 && data !== null && groups.length === 0 && html`<${Nothing} data=${data} metrics=${metrics} filter=${filter} onClear=${() => (setText(""), state.set({ below: null, q: null }))} />`}
      ${sections}
    </div>
  </div></${CursorContext.Provider}>`;
}

/**
 * What all charts share. The range grows as series arrive, so that all charts have the same one.
 * @param {import("../../charts/state.js").ChartState} state @param {any} data @param {{current: HTMLElement | null}} slider
 */
function useFrame(state, data, slider) {
  const [seen, setSeen] = useState(/** @type {{axis: string, range: [number, number], marks: import("../../charts/marks.js").Marks | null}} */ ({ axis: state.axis, range: NOTHING, marks: null }));
  const zoomed = useRef(false);
  zoomed.current = state.zoom !== null;
  const onLoad = useCallback(
    (/** @type {[number, number]} */ range, /** @type {import("../../charts/marks.js").Marks} */ marks) =>
      setSeen((last) => {
        const before = last.axis === state.axis ? last.range : NOTHING;
        const next = /** @type {[number, number]} */ (zoomed.current ? before : [Math.min(before[0], range[0]), Math.max(before[1], range[1])]);
        const same = last.axis === state.axis && next[0] === last.range[0] && next[1] === last.range[1] && sameMarks(marks, last.marks);
        return same ? last : { axis: state.axis, range: next, marks };
      }),
    [state.axis],
  );
  const marks = seen.marks;
  const range = seen.axis === state.axis ? seen.range : NOTHING;
  const start = state.axis === "time" ? startOf(marks, range[0] <= range[1] ? [{ x: range }] : []) : null;
  const newestStep = Math.max(0, ...(data?.series ?? []).map((/** @type {any} */ one) => one.last_step ?? 0));
  const shift = start ?? 0;
  const whole = /** @type {[number, number]} */ (state.axis === "step" && newestStep > 0 ? [Math.min(range[0], 0), Math.max(range[1], newestStep)] : range[0] <= range[1] ? [range[0] - shift, range[1] - shift] : [0, 1]);
  const places = useMemo(() => placesOf(marks, state.axis, start), [marks, state.axis, start]);
  const frame = useChartFrame(state, state.zoom ?? whole, places, slider);
  return { frame, marks, start, onLoad };
}

/** Whether nothing was added. @param {import("../../charts/marks.js").Marks} one @param {import("../../charts/marks.js").Marks | null} other */
function sameMarks(one, other) {
  return other !== null && one.attempts.length === other.attempts.length && one.attempts.at(-1)?.step === other.attempts.at(-1)?.step && one.checkpoints.length === other.checkpoints.length;
}

/**
 * A loader a run, anew when the axis, the part of it that is seen, or the run's metrics change.
 * @param {readonly string[]} runs @param {Record<string, string>} names @param {import("../../charts/state.js").ChartState} state @param {number | null} start @param {string | null} version
 * @returns {import("./metric.js").Source[]}
 */
function useSources(runs, names, state, start, version) {
  const zoom = state.zoom;
  const shift = state.axis === "time" ? start : 0;
  const bounds = zoom === null || shift === null ? "" : `${zoom[0] + shift}..${zoom[1] + shift}`;
  const labels = shortNames(runs.map((run) => names[run] ?? run));
  const sources = useMemo(() => {
    const [from, to] = bounds.split("..");
    // Other runs begin at other times: of them all is asked for.
    return runs.map((run, index) => ({ name: labels[index], loader: new SeriesLoader(run, { axis: state.axis, ...(bounds && (index === 0 || state.axis !== "time") ? { start: from, end: to } : {}) }) }));
  }, [runs.join(" "), labels.join("\n"), state.axis, bounds, version]);
  useEffect(() => () => sources.forEach(({ loader }) => loader.close()), [sources]);
  return sources;
}

/** The metric of "producer:key" or of a key. @param {readonly import("./keys.js").Metric[]} metrics @param {string} name */
function metricNamed(metrics, name) {
  return metrics.find(({ key, producers }) => key === name || producers.some((producer) => `${producer}:${key}` === name)) ?? null;
}

/** What is wrong with the file, and keys that do not exist. @param {{data: any, missing: readonly string[]}} properties */
function Troubles({ data, missing }) {
  return html`${missing.map((key) => html`<p class="trouble warn" key=${key}>There is no metric of the name <span class="mono">${key}</span> in this run.</p>`)}
    ${data?.trouble && html`<p class="trouble warn">The metrics cannot be read: ${data.trouble}</p>`}
    ${data?.damage && html`<p class="trouble dim small" title=${data.damage.sample}>${plural(data.damage.lines, "line")} of the metrics cannot be read, the first at byte ${count(data.damage.first_offset)}.</p>`}
    ${data?.partial && html`<p class="trouble faint small">Only the newest part of a large metrics file is shown; the rest is being read.</p>`}`;
}

/** @param {{data: any, metrics: readonly unknown[], filter: {text: string, below: string}, onClear: () => void}} properties */
function Nothing({ data, metrics, filter, onClear }) {
  if (metrics.length === 0) return html`<${Empty}>${data.partial ? "The metrics are being read." : "No metrics yet. They appear with the run's first step."}</${Empty}>`;
  return html`<div class="state"><p>No key ${filter.below && html`below <span class="mono">${filter.below}</span> `}${filter.text && html`has "${filter.text}"`}.</p><button type="button" class="btn" onClick=${onClear}>Show all keys</button></div>`;
}
