/** The overview: findings, the numbers that matter, where time goes, and the curated charts under one cursor. */

import { Chart } from "../../charts/chart.js";
import { CursorContext } from "../../charts/cursor.js";
import { placesOf } from "../../charts/marks.js";
import { useChartFrame, useChartState, useMetricsVersion, usePinnedCursor } from "../../charts/state.js";
import { ComparedRuns, Toolbar } from "../../charts/toolbar.js";
import { runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { useNavigation } from "../../lib/location.js";
import { html, useEffect, useMemo, useRef, useState } from "../../lib/ui.js";
import { Findings } from "../../parts/findings.js";
import { RunHeader } from "../../parts/header.js";
import { useRunNames, useVerdict } from "../../parts/run.js";
import { Failed } from "../../parts/states.js";
import { BottleneckBar } from "./bottleneck.js";
import { useCompared } from "./compared.js";
import { drawnRange, elapsed, merged } from "./merge.js";
import { Tiles } from "./tiles.js";

const POINTS = 200;
/** Sections as they usually are, for the place they take while they load. */
const USUAL = [["Train", 8], ["Eval", 4], ["Stability", 8], ["Performance", 8], ["Inference", 8]];
/** How long what is below waits for the findings, so that they do not push it down. */
const FINDINGS_MS = 400;

export default function Page() {
  const { place } = useNavigation();
  const run = /** @type {string} */ (place.run);
  const verdict = useVerdict(run);
  const state = useChartState();
  const cursor = usePinnedCursor();
  const version = useMetricsVersion();
  const data = useOverview(run, state, version);
  const settled = useSettled(verdict.data !== null || verdict.error !== null);
  return html`<${RunHeader} />
    ${place.get("health") ? null : html`<section class="overview-findings" aria-label="Findings"><${Findings} verdict=${verdict} /></section>`}
    ${settled &&
    html`<${CursorContext.Provider} value=${cursor}>
      ${data.error && data.overview === null ? html`<${Failed} error=${data.error} what="The overview could not be read." again=${data.again} />` : html`<${Body} state=${state} data=${data} run=${run} />`}
    </${CursorContext.Provider}>`}`;
}

/**
 * The run's overview on the axis that is shown. Of a zoom, lines are asked for anew; what is there is drawn until then.
 * @param {string} run @param {import("../../charts/state.js").ChartState} state @param {string | null} version
 */
function useOverview(run, state, version) {
  const [start, setStart] = useState(/** @type {number | null} */ (null));
  const { axis, zoom } = state;
  const parameters = { axis, points: POINTS };
  const shift = axis === "time" ? start : 0;
  const part = zoom && shift !== null ? { start: zoom[0] + shift, end: zoom[1] + shift } : {};
  const { data, error, again } = useData(runPath(run, "overview"), { ...parameters, ...part }, { version });
  // Other runs begin at other times: of them all is asked for.
  const compared = useCompared(state.compare, axis === "time" ? parameters : { ...parameters, ...part }, version);
  // An answer for another axis would be drawn on this one.
  const overview = useMemo(() => (data === null || data.axis !== axis ? null : elapsed(data)), [data, axis]);
  useEffect(() => {
    if (overview && overview.start !== null) setStart(overview.start);
  }, [overview]);
  return { overview, compared, error, again };
}

/** @param {{state: import("../../charts/state.js").ChartState, data: ReturnType<typeof useOverview>, run: string}} properties */
function Body({ state, data, run }) {
  const { overview, compared } = data;
  const slider = useRef(/** @type {HTMLElement | null} */ (null));
  const names = useRunNames(run, state.compare);
  const others = state.compare.map((id) => ({ name: names[id] ?? id, overview: compared.overviews[id] })).filter(({ overview: one }) => one && one.axis === state.axis);
  const sections = useMemo(
    () => (overview === null ? null : merged([{ name: names[run], overview }, ...others.map(({ name, overview: one }) => ({ name, overview: elapsed(one) }))])),
    [overview, ...others.flatMap(({ name, overview: one }) => [name, one]), others.length],
  );
  const range = useMemo(() => state.zoom ?? drawnRange(sections ?? [], state.axis), [sections, state.zoom, state.axis]);
  const marks = useMemo(() => placesOf(overview?.marks, state.axis, overview?.start ?? null), [overview, state.axis]);
  const frame = useChartFrame(state, range, marks, slider);
  return html`<div class="overview-page ${data.error ? "old" : ""}">
    <${Tiles} tiles=${overview?.tiles ?? null} />
    ${overview?.kind !== "eval" && html`<${BottleneckBar} bottleneck=${overview?.bottleneck ?? null} waiting=${overview === null} />`}
    <${Toolbar} state=${state} range=${range} marks=${overview?.marks ?? null} start=${overview?.start ?? null} slider=${slider} />
    <${ComparedRuns} state=${state} own=${run} names=${names} failed=${compared.failed} />
    ${useMemo(() => (sections === null ? html`<${Skeleton} />` : sections.map((section) => html`<${Section} key=${section.id} section=${section} frame=${frame} why=${overview?.missing} />`)), [sections, frame, overview])}
    ${overview?.partial && html`<p class="state faint">Only the newest part of a large metrics file is drawn; the rest is being read.</p>`}
  </div>`;
}

/** @param {{section: import("./merge.js").Section, frame: import("../../charts/chart.js").Frame, why?: {section: string, why: string}[]}} properties */
function Section({ section, frame, why = [] }) {
  const { place } = useNavigation();
  const missing = why.find((one) => one.section === section.id)?.why;
  return html`<section aria-label=${section.title}>
    <div class="sec"><h2>${section.title}</h2><span class="faint">${section.note}</span></div>
    ${section.charts.length === 0 && html`<p class="nothing dim">${missing ?? "Nothing is recorded yet."}</p>`}
    <div class="charts">
      ${section.charts.map((chart) => {
        const keys = [...new Set(chart.lines.map(({ producer, key }) => `${producer}:${key}`))].slice(0, 6);
        return html`<${Chart} key=${chart.id} title=${chart.title} to=${keys.length ? place.to("metrics", { key: keys }) : null} unit=${chart.unit} about=${chart.about} format=${chart.format}
          lines=${chart.lines} limit=${chart.limit} fromZero=${chart.from_zero} frame=${frame} eager />`;
      })}
    </div>
  </section>`;
}

/** The page's own form, while it loads. */
function Skeleton() {
  return USUAL.map(
    ([title, count]) => html`<section key=${title} aria-busy="true">
      <div class="sec"><h2>${title}</h2></div>
      <div class="charts">${Array.from({ length: Number(count) }, (_, index) => html`<figure class="chart" key=${index}><header></header><div class="plot skeleton"></div></figure>`)}</div>
    </section>`,
  );
}

/** True once `ready` is, or after a while. @param {boolean} ready */
function useSettled(ready) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setLate(true), FINDINGS_MS);
    return () => window.clearTimeout(timer);
  }, []);
  return ready || late;
}
