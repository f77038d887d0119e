/** The restart plan: is one warranted, what must hold first, what to type, what is lost, how to see that it worked. */

import { runPath } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { count } from "../lib/format.js";
import { usePulse } from "../lib/pulse.js";
import { html } from "../lib/ui.js";
import { HealthBadge } from "./badge.js";
import { Copy } from "./controls.js";
import { capital, sentences, warrantedWords } from "./facts.js";
import { Failed, Waiting } from "./states.js";

const STATES = /** @type {Record<string, string>} */ ({ holds: "healthy", "does not hold": "down", unknown: "unknown" });

/** @param {{run: string}} properties */
export function RestartPlan({ run }) {
  const { data, error, again } = useData(runPath(run, "restart-plan"), {}, { version: usePulse().run?.verdict ?? null });
  if (data === null && error) return html`<${Failed} error=${error} what="The restart plan could not be made." again=${again} />`;
  if (data === null) return html`<div class="restart" aria-busy="true"><${Waiting} width=${30} /></div>`;
  const plan = data.plan;
  return html`<div class="restart">
    <div>
      <h2>${warrantedWords(plan.warranted)}</h2>
      <p class="dim">${sentences(plan.why, plan.command === null ? "" : `It ${plan.resume_step === null ? "begins again" : `resumes at step ${count(plan.resume_step)}`}${plan.host ? `, typed on ${plan.host}` : ""}`)}</p>
      ${plan.command ? html`<${Command} command=${plan.command} />` : plan.refused && html`<p class="dim">${sentences(plan.refused)}</p>`}
      ${plan.submission && html`<p class="dim">${sentences(plan.submission)}</p>`}
      ${plan.alternatives.length > 0 && html`<h3 class="small faint">Instead</h3>${plan.alternatives.map((/** @type {any} */ command) => html`<${Command} key=${command.line} command=${command} />`)}`}
      ${plan.verify.length > 0 && html`<h3 class="small faint">How to see that it worked</h3>${plan.verify.map((/** @type {any} */ command) => html`<${Command} key=${command.line} command=${command} />`)}`}
    </div>
    <div>
      <h3 class="small faint">What must hold first</h3>
      <ul>${plan.conditions.map((/** @type {any} */ condition) => html`<li key=${condition.name} class="condition"><${HealthBadge} health=${STATES[condition.state]} word=${capital(condition.state)} /><span><b>${capital(condition.name)}</b> <span class="dim">${sentences(condition.text, condition.action)}</span></span></li>`)}</ul>
      <${Words} title="Lost" lines=${plan.lost} /><${Words} title="Kept" lines=${plan.kept} /><${Words} title="Notes" lines=${plan.notes} />
    </div>
  </div>`;
}

/** @param {{command: {line: string, does: string}}} properties */
function Command({ command }) {
  return html`<div class="command"><p class="small dim">${sentences(command.does)}</p><pre class="mono" tabindex="0">${command.line}</pre><${Copy} text=${command.line} /></div>`;
}

/** @param {{title: string, lines: readonly string[]}} properties */
function Words({ title, lines }) {
  return lines.length > 0 && html`<h3 class="small faint">${title}</h3><ul class="words dim">${lines.map((line) => html`<li key=${line}>${sentences(line)}</li>`)}</ul>`;
}
