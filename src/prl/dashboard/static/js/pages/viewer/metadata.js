/** What is known of the episode, beside its transcript: the token on top, then outcome, staleness, time, task, evidence. */

import { change, clock, count, duration, moment, number } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html } from "../../lib/ui.js";
import { Copy } from "../../parts/controls.js";
import { Icon } from "../../parts/icons.js";
import { Link } from "../../parts/link.js";
import { words } from "../traces/columns.js";
import { secondsOf } from "./lanes.js";
import { Fold } from "./parts.js";
import { ReadOut } from "./readout.js";
import { listPlace } from "./places.js";
import { oneLine, visibleText } from "./visible.js";

/** @param {{data: any, trace: any | null, seen: import("./shared.js").Shared<import("./readout.js").Seen | null> | null}} properties */
export function Metadata({ data, trace, seen }) {
  const { row } = data;
  const cached = trace === null ? null : sum(trace.nodes.map((/** @type {any} */ node) => node.call?.cached ?? null));
  const bad = row.truncated || row.timeout;
  return html`<aside class="md" aria-label="Token and episode" tabindex="-1">
    ${seen && html`<${ReadOut} seen=${seen} />`}
    <section><h2>${data.live ? "In flight" : `Episode ${count(row.line)}`}</h2><dl>
      ${fact("Reward", row.reward === null ? null : number(row.reward))}
      ${fact("Advantage", row.advantage === null || row.advantage === undefined ? null : change(row.advantage))}
      ${(trace?.rewards ?? []).slice(0, 30).map((/** @type {any} */ one) => fact(oneLine(one.name, 60), one.score === null ? null : `${number(one.score)} \u00d7 ${number(one.weight)}`, "what scoring gave, times its weight"))}
    </dl></section>
    <section><h2>Outcome</h2><dl>
      ${fact("Stop", row.stop_condition === null && !bad ? null : html`${bad ? html`<span class="badge warn nb"><${Icon} name="warn" size=${14} />${[words(row.stop_condition), row.timeout ? "timed out" : "truncated"].filter(Boolean).join(", ")}</span>` : words(row.stop_condition)}`)}
      ${fact("Turns", row.turns === null ? null : count(row.turns))}${fact("Branches", row.branches === null ? null : count(row.branches))}
      ${fact("Tokens in", row.input_tokens === null ? null : count(row.input_tokens))}${cached !== null && fact("Cached", count(cached))}${fact("Tokens out", row.output_tokens === null ? null : count(row.output_tokens))}
      ${row.cost !== null && row.cost !== undefined && fact("Cost", number(row.cost))}
    </dl></section>
    <${Staleness} data=${data} />
    ${trace && html`<${Time} trace=${trace} row=${row} />`}
    <${Task} data=${data} />
    ${trace && html`<${Evidence} data=${data} trace=${trace} />`}
  </aside>`;
}

/** @param {string} label @param {any} value null: not known @param {string} [title] */
function fact(label, value, title) {
  return html`<div key=${label}><dt title=${title}>${label}</dt><dd class="tn">${value === null ? html`<span class="faint">n/a</span>` : value}</dd></div>`;
}

/** @param {readonly (number | null)[]} values */
function sum(values) {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((total, value) => total + Number(value), 0);
}

/** How old its policy was when it was trained on. @param {{data: any}} properties */
function Staleness({ data }) {
  const { place } = useNavigation();
  const { row } = data;
  const at = (/** @type {number | null | undefined} */ step, /** @type {number | null | undefined} */ time) => {
    const said = [step === null || step === undefined ? null : `step ${step}`, time ? clock(time) : null].filter(Boolean).join(", ");
    return said ? html`<span title=${time ? moment(time) : undefined}>${said}</span>` : null;
  };
  const [start, end] = [data.policy?.start ?? row.policy_start ?? null, data.policy?.end ?? row.policy_end ?? null];
  const shipped = row.ship_step ?? data.step ?? null;
  return html`<section><h2>Staleness</h2><dl>
    ${fact("Dispatched", at(row.dispatch_step, row.dispatch))}${fact("Arrived", at(row.arrival_step, row.arrival))}
    ${fact("Trained", shipped === null ? (row.kind === "eval" ? "evaluation: never" : row.effective === false ? "no: left out" : null) : html`<${Link} to=${place.to("overview", { at: shipped })} title="The charts at this step">step ${shipped}</${Link}>`)}
    ${fact("Policy", start === null ? null : end === null || end === start ? String(start) : `${start} to ${end}`, "versions that wrote it")}
    ${fact("Lag", row.lag === null || row.lag === undefined ? null : `${row.lag} ${row.lag === 1 ? "step" : "steps"}`)}
  </dl></section>`;
}

/** @param {{trace: any, row: any}} properties */
function Time({ trace, row }) {
  const { place } = useNavigation();
  const logs = (/** @type {number} */ time, /** @type {string} */ label) => html`<${Link} to=${place.to("logs", { at: time.toFixed(3) })} title=${moment(time)}>${label}</${Link}>`;
  const seconds = trace.seconds ?? {};
  const both = sum([seconds.boot ?? null, seconds.setup ?? null]);
  const model = secondsOf(trace.lanes, ["model"]);
  const tools = secondsOf(trace.lanes, ["tool"]);
  return html`<section><h2>Time</h2><dl>
    ${fact("Took", row.duration === null || row.duration === undefined ? null : duration(row.duration))}
    ${fact("Boot, setup", both === null ? null : duration(both))}${fact("Model calls", model > 0 ? duration(model) : null)}${fact("Tools", tools > 0 ? duration(tools) : null)}
    ${seconds.finalize > 0 && fact("Finalize", duration(seconds.finalize))}${fact("Scoring", seconds.scoring === undefined || seconds.scoring === null ? null : duration(seconds.scoring))}
  </dl><div class="row lk">${row.dispatch && logs(row.dispatch, "Logs at its start")}${row.arrival && logs(row.arrival, "Logs at its end")}</div></section>`;
}

/** @param {{data: any}} properties */
function Task({ data }) {
  const { place } = useNavigation();
  const { row, task } = data;
  const fields = Object.entries(task.data && typeof task.data === "object" ? task.data : {});
  const list = listPlace(place);
  return html`<section><h2>Task</h2><dl>
      ${fact("Key", task.key === null && row.task === null ? null : visibleText(String(task.key ?? row.task)))}${task.type && fact("Type", oneLine(task.type, 40))}
      ${fields.slice(0, 40).map(([name, value]) => short(name, value))}
    </dl>
    ${fields.slice(0, 40).map(([name, value]) => long(name, value))}
    <div class="row lk">
      ${row.group && html`<${Link} to=${list.with({ sel: row.ref, steps: null })}>Group</${Link}>`}
      ${(task.key ?? row.task) && html`<${Link} to=${list.with({ task: task.key ?? row.task, env: row.env, step: null, group: null, sel: row.ref })}>Same task over the run</${Link}>`}
      <${CopyLink} />
    </div></section>`;
}

/** @param {string} name @param {unknown} value */
function short(name, value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text !== undefined && text.length <= 28 && !text.includes("\n") ? fact(oneLine(name, 40), visibleText(text)) : null;
}

/** @param {string} name @param {unknown} value */
function long(name, value) {
  const text = typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
  if (text.length <= 28 && !text.includes("\n")) return null;
  return html`<${Fold} key=${name} label=${oneLine(name, 40)} preview=${oneLine(text, 60)}><p class="field-text">${visibleText(text.slice(0, 20_000))}</p><${Copy} text=${text} /></${Fold}>`;
}

function CopyLink() {
  return html`<${Copy} text=${window.location.href} label="Copy link" />`;
}

/** Why this reward: metrics, what judges said, and the rest of what was recorded. @param {{data: any, trace: any}} properties */
function Evidence({ data, trace }) {
  const metrics = Object.entries(trace.metrics ?? {}).slice(0, 60);
  const judges = data.judge.filter((/** @type {any} */ one) => one.trace === trace.index);
  const rest = { info: trace.info, usage: trace.usage, timing: trace.timing, agent: trace.agent_config };
  return html`${metrics.length > 0 && html`<section><h2>Metrics</h2><dl>${metrics.map(([name, value]) => fact(oneLine(name, 60), typeof value === "number" ? number(value) : value === null ? null : oneLine(String(value), 40)))}</dl></section>`}
    ${judges.length > 0 && html`<section><h2>Judge</h2>${judges.map((/** @type {any} */ { call }, /** @type {number} */ index) => html`<${Fold} key=${index} label=${`Call ${index + 1}`} preview=${oneLine(typeof call === "string" ? call : JSON.stringify(call), 80)}><pre class="mono">${visibleText(JSON.stringify(call, null, 2).slice(0, 20_000))}</pre><${Copy} text=${JSON.stringify(call, null, 2)} /></${Fold}>`)}</section>`}
    ${trace.failed_calls?.length > 0 && html`<section><h2>Calls without an answer</h2>${trace.failed_calls.map((/** @type {any} */ call, /** @type {number} */ index) => html`<${Fold} key=${index} label=${`Call ${index + 1}`} preview=${oneLine(JSON.stringify(call.error ?? ""), 80)}><pre class="mono">${visibleText(JSON.stringify(call, null, 2))}</pre></${Fold}>`)}</section>`}
    <section><h2>Recorded</h2>${Object.entries(rest).map(([name, value]) => {
      const text = JSON.stringify(value, null, 2) ?? "";
      return text === "{}" || text === "" || text === "null" ? null : html`<${Fold} key=${name} label=${name} preview=${oneLine(text, 60)}><pre class="mono">${visibleText(text.slice(0, 20_000))}</pre><${Copy} text=${text} /></${Fold}>`;
    })}
    <dl>${fact("Id", html`<span class="mono clip" title=${data.row.id ?? data.row.ref}>${oneLine(String(data.row.id ?? data.row.ref), 20)}</span>`)}${fact("Trace", html`<span class="mono clip" title=${trace.id}>${oneLine(String(trace.id ?? ""), 20)}</span>`)}</dl></section>`;
}
