/** The rollouts of one task beside one another: what came of each, and where they part. */

import { runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { change, count, number } from "../../lib/format.js";
import { useRested } from "../../lib/hooks.js";
import { useNavigation } from "../../lib/location.js";
import { usePulse } from "../../lib/pulse.js";
import { html } from "../../lib/ui.js";
import { Choice } from "../../parts/controls.js";
import { Icon } from "../../parts/icons.js";
import { Link } from "../../parts/link.js";
import { Failed } from "../../parts/states.js";
import { oneLine, visibleText } from "../viewer/visible.js";
import { NA, Reward } from "./columns.js";
import { partedRows } from "./parting.js";
import { Compared, TaskHistory, useTaskHistory } from "./task_history.js";
import { ByTurn, SideBySide } from "./turns.js";

const LAYOUTS = [
  { value: "", label: "First parting" },
  { value: "turns", label: "By turn" },
  { value: "side", label: "Side by side" },
];

/** The group of the chosen episode, below the list. @param {{row: any | null, onClose: () => void}} properties */
export function GroupPanel({ row, onClose }) {
  const { place, go } = useNavigation();
  const version = usePulse().run?.episodes;
  const run = /** @type {string} */ (place.run);
  // Walking the rows by arrow keys asks for the group on which one rests.
  const rested = useRested(row, 150);
  const of = rested === null ? null : whichGroup(rested);
  const group = useData(of === null ? null : runPath(run, "episodes", "group"), of ?? {}, { version, keep: false });
  const history = useTaskHistory(run, rested?.task ?? null, rested?.env ?? null, version);
  if (row === null) return null;
  const layout = place.get("layout");
  const data = group.data;
  const picked = place.get("steps").split(",").filter(Boolean).map(Number);
  return html`<section class="grp" aria-label="Group">
    <div class="row gh">
      <h2>${row.group ? html`Group <span title=${oneLine(row.group, 400)}>${oneLine(row.group, 8)}</span>, task` : "Task"} <span title=${oneLine(row.task ?? "", 400)}>${oneLine(row.task ?? "unknown", 40)}</span></h2>
      <span class="dim hide-m">${oneLine(row.env ?? "", 40)}${row.ship_step === null ? "" : `, step ${row.ship_step}`}${data ? `, ${data.rollouts.length} rollouts` : ""}</span>
      ${data && html`<${Outcome} data=${data} />`}
      <${Earlier} history=${history.data} step=${row.ship_step} />
      <span class="grow"></span>
      <${Choice} label="Group layout" value=${layout} options=${LAYOUTS} onChange=${(/** @type {string} */ value) => go(place.with({ layout: value || null }), { replace: true })} />
      ${row.group && html`<${Link} class="btn hide-m" to=${place.with({ group: row.group, sel: row.ref })} title="Only the rollouts of this group in the list">Open group<${Icon} name="right" size=${14} /></${Link}>`}
      <button type="button" class="btn quiet" aria-label="Close the group" title="Close (x)" onClick=${onClose}><${Icon} name="close" /></button>
    </div>
    ${group.error && html`<${Failed} error=${group.error} what="The group could not be read." again=${group.again} />`}
    ${data && html`<p class="task dim clip" title=${oneLine(data.prompt ?? "", 1000)}><span class="faint">Task</span> ${oneLine(data.prompt ?? "", 400)}</p>`}
    ${!data && !group.error && html`<p class="task"><span class="waiting"></span></p>`}
    <div class="gb">
      ${data && (picked.length === 2 ? html`<${Compared} run=${run} task=${row.task} env=${row.env} steps=${picked} />` : layout === "turns" ? html`<${ByTurn} rollouts=${data.rollouts} />` : layout === "side" ? html`<${SideBySide} rollouts=${data.rollouts} at=${row.ref} />` : html`<${Parting} data=${data} at=${row.ref} />`)}
    </div>
    <${TaskHistory} history=${history} step=${row.ship_step} picked=${picked} />
  </section>`;
}

/** How the server is asked for the rollouts beside a row's. @param {any} row */
function whichGroup(row) {
  if (row.group) return { group: row.group, env: row.env };
  return row.task && row.env ? { task: row.task, env: row.env, step: row.ship_step } : null;
}

/** @param {{data: any}} properties */
function Outcome({ data }) {
  const solved = data.rollouts.filter((/** @type {any} */ one) => isSolved(one.row)).length;
  const mean = data.reward_mean;
  return html`<span class="tn"><b>${solved} of ${data.rollouts.length}</b> <span class="dim">solved, mean ${number(mean)}${data.reward_std === 0 ? ", all equal: no signal" : ""}</span></span>`;
}

/** Solved: as good as a reward of 1, which scores mean. @param {any} row */
export const isSolved = (row) => row.reward !== null && row.reward >= 1;

/** The link to the last step before at which the task was tried. @param {{history: any, step: number | null}} properties */
function Earlier({ history, step }) {
  const { place, go } = useNavigation();
  const before = (history?.rows ?? []).filter((/** @type {any} */ one) => step !== null && one.step !== null && one.step < step).at(-1);
  if (!before || step === null) return null;
  return html`<button type="button" class="lnk tn hide-m" onClick=${() => go(place.with({ steps: `${before.step},${step}` }), { replace: true })}>Same task at step ${before.step}: ${before.solved} of ${before.count}</button>`;
}

/** The rollouts with what they share and where they part. @param {{data: any, at?: string | null}} properties */
export function Parting({ data, at = null }) {
  const { place } = useNavigation();
  const parting = data.parting;
  const rows = partedRows(parting, data.rollouts);
  const range = /** @type {[number, number]} */ ([Math.min(0, ...data.rollouts.map((/** @type {any} */ { row }) => row.reward ?? 0)), Math.max(1, ...data.rollouts.map((/** @type {any} */ { row }) => row.reward ?? 0))]);
  return html`<div class="parting" role="table" aria-label="Rollouts of the group">
    <div class="gr gth" role="row">
      <span role="columnheader" class="num">#</span><span role="columnheader">Reward</span><span role="columnheader" class="num">Advantage</span><span role="columnheader" class="num hide-s">Turns</span><span role="columnheader" class="num hide-s">Tokens out</span>
      <span role="columnheader" class="pre hide-s">${parting ? "Shared by all" : html`<span class="vh">Shared</span>`}</span><span class="fk0" role="presentation"></span>
      <span role="columnheader">${parting ? html`<b class="acc">Part ${parting.token === null ? "in their texts" : `at token ${count(parting.token)}`}</b>${parting.turn === null ? "" : `, turn ${parting.turn}`}, into ${parting.ways.length} ways` : html`<span class="warn">${data.reason ?? "They do not part."}</span>`}</span>
      <span role="columnheader" class="num hide-s">${parting ? "First token's probability" : html`<span class="vh">Probability</span>`}</span>
    </div>
    ${rows.map((one) => {
      const { row } = data.rollouts[one.index];
      return html`<div key=${row.ref} role="row" class="gr ${one.first ? "nw" : ""} ${row.ref === at ? "on" : ""}">
        <span role="cell" class="num"><${Link} class="tn" to=${place.with({ episode: row.ref, sel: row.ref, ...(parting && parting.token !== null ? { token: parting.token } : {}) })} title=${`Open episode ${row.line}`}>${one.index + 1}</${Link}></span>
        <span role="cell" class="rwd"><${Reward} value=${row.reward} range=${range} width=${72} digits=${2} /></span>
        <span role="cell" class="num tn">${row.advantage === null ? NA : change(row.advantage, (value) => number(Number(value.toFixed(3))))}</span>
        <span role="cell" class="num tn dim hide-s">${count(row.turns)}</span>
        <span role="cell" class="num tn dim hide-s">${count(row.output_tokens)}</span>
        <span role="cell" class="pre mono hide-s"><span dir="ltr">${parting ? tail(parting.shared_text) : ""}</span></span>
        <span role="presentation" class="fork">${parting && one.way >= 0 && html`<svg width="14" height="26" viewBox="0 0 14 26" aria-hidden="true"><path class="stem" d="M7 0V26" /><circle cx="7" cy="13" r="3.5" class="f${one.colour}" /></svg>`}</span>
        <span role="cell" class="post mono clip">${one.marked && html`<mark class="way w${one.colour}">${oneLineKept(one.marked)}</mark>`}${oneLineKept(one.rest)}${row.truncated ? html` <span class="warn">(${(row.stop_condition ?? "truncated").replaceAll("_", " ")})</span>` : ""}</span>
        <span role="cell" class="num tn hide-s">${one.way < 0 ? "" : one.first ? (one.probability === null ? NA : one.probability.toFixed(2)) : html`<span class="faint" title="as above">\u2033</span>`}</span>
      </div>`;
    })}
  </div>`;
}

/** The end of what is shared, in one line. @param {string} text */
const tail = (text) => visibleText(text.slice(-200)).replace(/\s+/g, " ").trim().slice(-28);

/** One line that keeps the space at its beginning. @param {string} text */
const oneLineKept = (text) => visibleText(text.slice(0, 600)).replace(/\n/g, "\u23ce").replace(/\s+/g, " ");
