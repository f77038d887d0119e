/** Several runs beside each other: the reward of all, the config keys that differ, the values at their last common step. */

import { Chart } from "../../charts/chart.js";
import { Cursor, CursorContext } from "../../charts/cursor.js";
import { shortNames } from "../../charts/labels.js";
import { axisRange } from "../../charts/model.js";
import { USUAL_SMOOTHING } from "../../charts/state.js";
import { useData } from "../../lib/data.js";
import { count, formatted } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html, useMemo, useState } from "../../lib/ui.js";
import { Link } from "../../parts/link.js";
import { Failed, Waiting } from "../../parts/states.js";
import { oddOnes } from "./rows.js";

const NO_MARKS = { attempts: [], checkpoints: [] };
export const MOST_RUNS = 6;

/** @param {{runs: readonly string[], version: unknown}} properties ids, 2 to 6 */
export function ComparePanel({ runs, version }) {
  const { place } = useNavigation();
  const [cursor] = useState(() => new Cursor());
  const [zoom, setZoom] = useState(/** @type {[number, number] | null} */ (null));
  const { data, error, again, loading } = useData("compare", { run: runs, key: "reward" }, { version });
  const names = useMemo(() => shortNames((data?.runs ?? []).map((/** @type {any} */ run) => run.name)), [data]);
  const lines = useMemo(() => (data === null ? null : comparedLines(data, names)), [data, names]);
  const whole = axisRange(lines ?? []);
  const frame = useMemo(
    () => ({ axis: "step", smoothing: USUAL_SMOOTHING, log: false, range: zoom ?? whole, marks: NO_MARKS, onZoom: (/** @type {number} */ from, /** @type {number} */ to) => setZoom([from, to]), onReset: () => setZoom(null), onPick: () => {} }),
    [zoom, whole[0], whole[1]],
  );
  if (data === null && error) return html`<section class="cmp"><${Failed} error=${error} what="The runs could not be compared." again=${again} /></section>`;
  const heads = data?.runs.map((/** @type {any} */ run, /** @type {number} */ index) => html`<th scope="col" class="num" key=${run.id}><i class="sw b${(index % 6) + 1}"></i><span title=${run.name}>${names[index]}</span></th>`);
  return html`<section class="cmp ${loading && data ? "old" : ""}" aria-label="Comparison" aria-busy=${String(data === null)}>
    <${CursorContext.Provider} value=${cursor}>
      <div><div class="row"><h2>Comparing ${runs.length} runs</h2><span class="dim">reward by step</span></div>
        <${Chart} title="Reward" lines=${lines} frame=${frame} height=${190} fromZero ends empty="None of these runs has a reward." /></div>
    </${CursorContext.Provider}>
    <div class="cmp-table"><div class="row"><h2>${data ? `${count(data.config.differ.length)} of ${count(data.config.total)} config keys differ` : "Config keys that differ"}</h2>
      ${data && html`<${Link} class="small" to=${place.to("configs", { run: runs[0], view: "diff", a: attemptOf(data.runs[1]), b: attemptOf(data.runs[0]) })}>Open full diff</${Link}>`}</div>
      ${data ? html`<${Differences} config=${data.config} heads=${heads} />` : html`<${Waiting} width=${20} />`}</div>
    <div class="cmp-table"><div class="row"><h2>${data?.at ? `At step ${count(data.at.step)}` : "At the last common step"}</h2><span class="faint small">${data && !data.at ? "they have no step in common" : "the last step that all have"}</span></div>
      ${data?.at && html`<${AtStep} rows=${data.at.rows} heads=${heads} />`}</div>
  </section>`;
}

/** @param {any} data @param {readonly string[]} names @returns {import("../../charts/model.js").Line[]} */
function comparedLines(data, names) {
  const place = new Map(data.runs.map((/** @type {any} */ run, /** @type {number} */ index) => [run.id, index]));
  const words = [...new Set(data.lines.map((/** @type {any} */ line) => line.label))];
  return data.lines.map((/** @type {any} */ line) => {
    const index = place.get(line.run) ?? 0;
    const label = [names[index], line.label].filter(Boolean).join(" ");
    return { ...line, low: null, high: null, label, color: (index % 6) + 1, dash: (index + words.indexOf(line.label)) % 4 };
  });
}

/** @param {{config: {differ: {key: string, values: any[]}[], truncated?: boolean}, heads: any}} properties */
function Differences({ config, heads }) {
  if (config.differ.length === 0) return html`<p class="dim">They were configured alike.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Config keys that differ"><table class="table diff mono"><thead><tr><th scope="col">Key</th>${heads}</tr></thead><tbody>
    ${config.differ.map(({ key, values }) => {
      const odd = oddOnes(values);
      return html`<tr key=${key}><th scope="row" class="clip" title=${key}>${key}</th>${values.map((value, index) => html`<td key=${index} class="num clip ${odd[index] ? "df" : ""}" title=${configText(value)}>${configText(value)}</td>`)}</tr>`;
    })}
  </tbody></table>${config.truncated && html`<p class="small faint">More differ.</p>`}</div>`;
}

/** An attempt as the page of configs names it. @param {{id: string, attempt: number | null}} run */
function attemptOf({ id, attempt }) {
  return attempt === null ? id : `${id}:${attempt}`;
}

/** @param {unknown} value */
function configText(value) {
  if (value !== null && typeof value === "object" && /** @type {any} */ (value).set === false) return "not set";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** @param {{rows: {label: string, format: string, values: (number | null)[]}[], heads: any}} properties */
function AtStep({ rows, heads }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Values at the last common step"><table class="table diff"><thead><tr><th scope="col">Metric</th>${heads}</tr></thead><tbody>
    ${rows.map(({ label, format, values }) => html`<tr key=${label}><th scope="row" class="clip" title=${label}>${label}</th>${values.map((value, index) => html`<td key=${index} class="num ${value === null ? "faint" : ""}">${formatted(value, format)}</td>`)}</tr>`)}
  </tbody></table></div>`;
}
