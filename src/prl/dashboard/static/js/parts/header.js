/**
 * The strip below the top bar of a run's pages: health, phase, how far it is. A click on the health opens the findings,
 * the restart plan and the check-ins. What is open is in the address (`health=findings` or `restart`).
 */

import { count, duration, moment, plural } from "../lib/format.js";
import { useNow } from "../lib/hooks.js";
import { useKeys } from "../lib/keys.js";
import { useNavigation } from "../lib/location.js";
import { Steps } from "../charts/progress.js";
import { html } from "../lib/ui.js";
import { HealthBadge } from "./badge.js";
import { Choice } from "./controls.js";
import { capital, endWords, jobWords, stepsLook } from "./facts.js";
import { Findings } from "./findings.js";
import { Icon } from "./icons.js";
import { Link } from "./link.js";
import { RestartPlan } from "./restart.js";
import { useRun, useVerdict } from "./run.js";
import { Failed, Waiting } from "./states.js";

const PARTS = ["findings", "restart"];

export function RunHeader() {
  const { place, go } = useNavigation();
  const run = /** @type {string} */ (place.run);
  const { data, error, again } = useRun(run);
  const open = PARTS.includes(place.get("health")) ? place.get("health") : "";
  const show = (/** @type {string} */ part) => go(place.with({ health: part }), { replace: true });
  useKeys(open ? [{ keys: "Escape", about: "Close the findings", run: () => show(""), hidden: true }] : []);
  if (data === null && error) return html`<${Failed} error=${error} what="The run could not be read." again=${again} />`;
  return html`<section class="run-header" aria-label="Run" aria-busy=${String(data === null)}>
      <${Health} run=${data?.run ?? null} open=${open !== ""} onToggle=${() => show(open ? "" : "findings")} />
      <${Facts} run=${data?.run ?? null} />
    </section>
    ${open && html`<${Details} run=${run} open=${open} onShow=${show} />`}`;
}

/** @param {{run: any, open: boolean, onToggle: () => void}} properties */
function Health({ run, open, onToggle }) {
  const title = run === null ? "" : run.findings ? `${plural(run.findings, "finding")}${run.reason ? `: ${run.reason}` : ""}` : (run.reason ?? "No findings");
  return html`<button type="button" class="health" aria-expanded=${String(open)} aria-controls="health-details" title=${title} onClick=${onToggle}>
    ${run === null ? html`<span class="badge pill unknown"><${Waiting} width=${5} /></span>` : html`<${HealthBadge} pill health=${run.health} />`}
    ${run?.findings > 0 && html`<span class="faint small">${plural(run.findings, "finding")}</span>`}<${Icon} name=${open ? "up" : "down"} size=${12} />
  </button>`;
}

/** @param {{run: any}} properties null: not there yet */
function Facts({ run }) {
  const now = useNow(10);
  if (run === null) return ["Phase", "Step", "Elapsed", "Left", "Attempt", "Job"].map((label) => html`<span class="fact" key=${label}><span class="k">${label}</span><${Waiting} width=${6} /></span>`);
  const [job, about] = jobWords(run.job);
  const phase = [capital(run.phase) || "Not judged yet", run.stage].filter(Boolean).join(", ");
  return html`<span class="fact"><span class="k">Phase</span><b>${phase}</b>${run.awaits && html`<span class="dim clip awaits" title=${run.awaits}>${run.awaits}</span>`}</span>
    <span class="prog tn" title=${run.checkpoints.length ? `Checkpoints at ${run.checkpoints.slice(-12).map(count).join(", ")}` : "No checkpoint yet"}>
      <span class="nowrap"><span class="vh">Step </span><b>${run.step === null ? "n/a" : count(run.step)}</b> <span class="dim">${endWords(run)}</span></span>
      ${run.max_steps !== null && html`<${Steps} step=${run.step} max=${run.max_steps} checkpoints=${run.checkpoints} look=${stepsLook(run.health, run.phase)} />`}
    </span>
    <span class="fact tn"><span class="k">Elapsed</span>${duration(run.elapsed)}</span>
    ${run.eta !== null && html`<span class="fact tn" title=${`At the pace of the last steps (${duration(run.seconds_per_step)} a step): ${moment(run.eta)}`}><span class="k">Left</span>about ${rough(run.eta - now)}</span>`}
    <span class="fact tn"><span class="k">Attempt</span>${run.attempt ?? "n/a"}${run.attempts.length > 1 ? ` of ${run.attempts.length}` : ""}</span>
    ${run.job !== null ? html`<span class="fact tn"><span class="k">Job</span>${job}${about && `, ${about}`}</span>` : run.host && html`<span class="fact"><span class="k">Host</span>${run.host}</span>`}`;
}

/** A length of time that is an estimate: one unit. @param {number} seconds */
function rough(seconds) {
  if (!(seconds > 0)) return "0 s";
  const words = duration(seconds).split(" ");
  return seconds < 100 ? `${Math.round(seconds)} s` : seconds >= 10 * 3600 || seconds < 3600 ? words.slice(0, 2).join(" ") : words.join(" ");
}

/** @param {{run: string, open: string, onShow: (part: string) => void}} properties */
function Details({ run, open, onShow }) {
  const { place } = useNavigation();
  const verdict = useVerdict(run);
  return html`<section id="health-details" class="health-details" aria-label="Health">
    <div class="bar">
      <${Choice} label="Health" value=${open} options=${[{ value: "findings", label: "Findings" }, { value: "restart", label: "Restart plan" }]} onChange=${onShow} />
      <${Link} to=${place.to("reports", { report: "STATUS.md" })}>Check-ins (STATUS.md)</${Link}>
      <button type="button" class="btn quiet" onClick=${() => onShow("")}><${Icon} name="close" />Close</button>
    </div>
    ${open === "restart" ? html`<${RestartPlan} run=${run} />` : html`<${Findings} verdict=${verdict} atMost=${20} />`}
  </section>`;
}
