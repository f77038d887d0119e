/** One task over the run: how many solved it at each step, and two steps beside one another. */

import { runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { number } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html, useEffect, useRef } from "../../lib/ui.js";
import { Failed } from "../../parts/states.js";
import { dots, pickStep } from "./parting.js";
import { Parting } from "./parting_table.js";

/** @param {string} run @param {string | null} task @param {string | null} env @param {string | undefined} version */
export function useTaskHistory(run, task, env, version) {
  return useData(task === null || env === null ? null : runPath(run, "episodes", "task"), { task, env }, { version, keep: false });
}

const MOST = 40;

/** @param {{history: import("../../lib/data.js").Data<any>, step: number | null, picked: readonly number[]}} properties */
export function TaskHistory({ history, step, picked }) {
  const { place, go } = useNavigation();
  const rows = (history.data?.rows ?? []).filter((/** @type {any} */ row) => row.step !== null);
  const shown = rows.slice(-MOST);
  const pick = (/** @type {number} */ one) => {
    const next = pickStep(picked.length === 0 && step !== null && one !== step ? [step] : picked, one);
    go(place.with({ steps: next.join(",") || null }), { replace: true });
  };
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  useEffect(() => {
    const [element, here] = [box.current, box.current?.querySelector(".cur2")];
    if (element && here instanceof HTMLElement) element.scrollLeft = here.offsetLeft + here.offsetWidth - element.clientWidth + 24;
  }, [history.data, step]);
  return html`<div class="hst" ref=${box} role="group" aria-label="This task over the run">
    <span class="faint">This task over the run</span>
    ${picked.length > 0 && html`<button type="button" class="lnk" onClick=${() => go(place.with({ steps: null }), { replace: true })}>Clear the picked steps</button>`}
    ${rows.length > MOST && html`<span class="faint">the last ${MOST} of ${rows.length} steps</span>`}
    ${shown.map((/** @type {any} */ row) => html`<button type="button" key=${row.step} class="hs tn ${row.step === step ? "cur2" : ""}" aria-pressed=${String(picked.includes(row.step))} title=${`Step ${row.step}: mean reward ${number(row.reward_mean)}`} onClick=${() => pick(row.step)}>
      <span>${row.step}</span><${Dots} count=${row.count} solved=${row.solved} /><b>${row.solved}/${row.count}</b></button>`)}
    ${rows.length === 0 && history.data && html`<span class="faint">Not known: the rows of values of this run do not name its tasks.</span>`}
    ${rows.length > 0 && html`<span class="faint last">filled: solved. ${picked.length === 2 ? "" : rows.length > 1 ? "Pick two steps to compare them here." : "Tried at this step only."}</span>`}
  </div>`;
}

/** @param {{count: number, solved: number}} properties */
function Dots({ count, solved }) {
  const shown = dots(count, solved, 8);
  return html`<svg class="dots" width=${shown.length * 10 + 2} height="12" aria-hidden="true">
    ${shown.map((full, index) => html`<circle key=${index} class=${full ? "full" : ""} cx=${index * 10 + 5} cy="6" r="3.5" />`)}
  </svg>`;
}

/** The task at two steps. @param {{run: string, task: string, env: string, steps: readonly number[]}} properties */
export function Compared({ run, task, env, steps }) {
  return html`<div class="compared">${[...steps].sort((a, b) => a - b).map((step) => html`<${AtStep} key=${step} run=${run} task=${task} env=${env} step=${step} />`)}</div>`;
}

/** @param {{run: string, task: string, env: string, step: number}} properties */
function AtStep({ run, task, env, step }) {
  const { data, error, again } = useData(runPath(run, "episodes", "group"), { task, env, step }, { keep: false });
  return html`<section aria-label="Step ${step}">
    <h3 class="tn">Step ${step} ${data && html`<span class="dim">mean ${number(data.reward_mean)}, ${data.rollouts.length} rollouts</span>`}</h3>
    ${error && html`<${Failed} error=${error} what="The rollouts of step ${step} could not be read." again=${again} />`}
    ${data && html`<${Parting} data=${data} />`}
  </section>`;
}
