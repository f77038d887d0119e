/** The columns of the list of runs. */

import { Steps } from "../../charts/progress.js";
import { Spark } from "../../charts/spark.js";
import { change, count, fixed, moment, number } from "../../lib/format.js";
import { html } from "../../lib/ui.js";
import { HealthBadge } from "../../parts/badge.js";
import { capital, endWords, jobWords, modelWords, stepsLook } from "../../parts/facts.js";
import { Link } from "../../parts/link.js";
import { Ago } from "../../parts/time.js";

/** @typedef {import("./rows.js").Run} Run */

/**
 * @param {import("../../lib/place.js").Place} place
 * @param {ReadonlySet<string>} selected
 * @param {(id: string, on: boolean) => void} onSelect
 * @returns {import("../../parts/table.js").Column<Run>[]}
 */
export function columns(place, selected, onSelect) {
  return [
    {
      id: "select",
      label: html`<span class="vh">Compare</span>`,
      class: "c-select",
      cell: (run) => html`<input type="checkbox" class="select" tabindex="-1" checked=${selected.has(run.id)} aria-label=${`Compare ${run.name}`} onChange=${(/** @type {any} */ event) => onSelect(run.id, event.currentTarget.checked)} />`,
    },
    {
      id: "name",
      label: "Run",
      class: "c-name",
      sortable: true,
      cell: (run) => html`<${Link} class="nm clip" tabindex="-1" to=${place.to("overview", { run: run.id })} title=${run.path}>${run.name}</${Link}><div class="small faint clip" title=${run.model}>${modelWords(run)}</div>`,
    },
    {
      id: "health",
      label: "Health",
      class: "c-health",
      sortable: true,
      cell: (run) => html`<${HealthBadge} health=${run.health} word=${run.health ?? "Unknown"} /><div class="small dim ind clip">${run.health === null ? "not judged yet" : capital(run.phase)}</div>`,
    },
    { id: "finding", label: "First finding", class: "c-finding", sortable: true, cell: findingCell },
    { id: "step", label: "Step", class: "c-step", sortable: true, cell: stepCell },
    { id: "reward", label: "Reward", class: "c-reward", sortable: true, cell: rewardCell },
    { id: "envs", label: "Environments", class: "c-envs", sortable: true, cell: envsCell },
    { id: "attempts", label: "Attempts", class: "c-attempts", number: true, sortable: true, cell: (run) => (run.attempts.length ? count(run.attempts.length) : html`<span class="faint">n/a</span>`) },
    {
      id: "job",
      label: "Job",
      class: "c-job",
      sortable: true,
      cell: (run) => {
        const [first, second] = run.job === null ? [run.host ?? "no job", run.host === null ? "" : "no job"] : jobWords(run.job);
        return html`<div class="clip" title=${first}>${first}</div><div class="small faint clip" title=${second}>${second}</div>`;
      },
    },
    { id: "age", label: "Age", class: "c-age", number: true, sortable: true, title: "Since the run was made", cell: (run) => html`<span title=${`Made ${moment(run.created)}, last written ${moment(run.changed)}`}><${Ago} time=${run.created} /></span>` },
  ];
}

/** @param {Run} run */
function findingCell(run) {
  const more = run.findings > 1 ? html` <span class="faint">${run.findings - 1} more</span>` : "";
  const said = run.finding?.message ?? run.reason ?? (run.health === null || run.problems.length > 0 ? "" : "No findings");
  if (run.problems.length > 0 && !run.finding) return html`<span class="lines2 dim" title=${run.problems.join("\n")}>${said || run.problems[0]}</span>`;
  return html`<span class="lines2 ${run.finding && run.finding.severity !== "info" ? "" : "dim"}" title=${said}>${said}${more}</span>`;
}

/** @param {Run} run */
function stepCell(run) {
  return html`<div class="steps-cell tn"><span class="nowrap"><b>${count(run.step)}</b> <span class="dim">${endWords(run)}</span></span>
    ${run.max_steps !== null && html`<${Steps} step=${run.step} max=${run.max_steps} checkpoints=${run.checkpoints} look=${stepsLook(run.health, run.phase)} />`}</div>`;
}

/** What stands in place of the reward, by the kind of run. */
const OTHERS = /** @type {Record<string, string>} */ ({ sft: "loss", eval: "score" });

/** @param {Run} run */
function rewardCell({ reward, kind }) {
  if (reward === null) return html`<span class="faint">n/a</span>`;
  return html`<div class="reward-cell"><${Spark} values=${reward.points} width=${72} height=${24} /><span class="tn"><b>${number(reward.last)}</b><br /><span class="small dim">${[OTHERS[kind ?? ""], reward.change === null ? "" : change(reward.change, (by) => fixed(by, 3))].filter(Boolean).join(" ")}</span></span></div>`;
}

/** @param {Run} run */
function envsCell(run) {
  const envs = run.train_envs.length ? run.train_envs : run.eval_envs.length ? run.eval_envs : run.dataset ? [run.dataset] : [];
  if (envs.length === 0) return html`<span class="faint">n/a</span>`;
  return html`<span class="lines2 dim" title=${envs.join(", ")}>${envs.slice(0, 2).join(", ")}${envs.length > 2 && ` +${envs.length - 2}`}</span>`;
}
