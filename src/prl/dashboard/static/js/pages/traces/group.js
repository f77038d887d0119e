/** The rollouts of one task beside one another: what came of each, and where they part. */

import { runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { number } from "../../lib/format.js";
import { useRested } from "../../lib/hooks.js";
import { useNavigation } from "../../lib/location.js";
import { usePulse } from "../../lib/pulse.js";
import { html } from "../../lib/ui.js";
import { Choice } from "../../parts/controls.js";
import { Icon } from "../../parts/icons.js";
import { Link } from "../../parts/link.js";
import { Failed } from "../../parts/states.js";
import { oneLine } from "../viewer/visible.js";
import { Parting } from "./parting_table.js";
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
const isSolved = (row) => row.reward !== null && row.reward >= 1;

/** The link to the last step before at which the task was tried. @param {{history: any, step: number | null}} properties */
function Earlier({ history, step }) {
  const { place, go } = useNavigation();
  const before = (history?.rows ?? []).filter((/** @type {any} */ one) => step !== null && one.step !== null && one.step < step).at(-1);
  if (!before || step === null) return null;
  return html`<button type="button" class="lnk tn hide-m" onClick=${() => go(place.with({ steps: `${before.step},${step}` }), { replace: true })}>Same task at step ${before.step}: ${before.solved} of ${before.count}</button>`;
}
