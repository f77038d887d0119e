/** The head of the viewer: what is open, and which of its agents, branches and views. */

import { count } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html } from "../../lib/ui.js";
import { Choice } from "../../parts/controls.js";
import { Icon } from "../../parts/icons.js";
import { Link } from "../../parts/link.js";
import { oneLine } from "./visible.js";

/** @param {{data: any, over: boolean}} properties */
export function Title({ data, over }) {
  const { row } = data;
  const step = row.ship_step ?? data.step;
  const said = [oneLine(row.env ?? "unknown environment", 60), row.task === null ? null : `task ${oneLine(row.task, 60)}`, step === null || step === undefined ? null : `step ${step}`, row.note?.kind ? row.note.text : null].filter(Boolean).join(", ");
  return html`<h1>${data.live ? html`<span class="acc"><${Icon} name="live" /></span> In flight` : `Episode ${row.line === null || row.line === undefined ? row.ref : count(row.line)}`}</h1>
    <span class="dim clip" title=${said}>${said}</span>${over && html`<span class="tag">has ended</span>`}`;
}

/** @param {{view: string, live: boolean}} properties */
export function Views({ view, live }) {
  const { place, go } = useNavigation();
  return html`<${Choice} label="View" value=${view} onChange=${(/** @type {string} */ next) => go(place.with({ view: next || null }))} options=${[
    { value: "", label: "Messages" },
    { value: "rendered", label: "Rendered", disabled: live, title: live ? "Once the rollout has arrived" : "The text as the model saw it" },
    { value: "timeline", label: "Timeline" },
  ]} />`;
}

/** One tab an agent. @param {{traces: readonly any[], index: number}} properties */
export function Agents({ traces, index }) {
  const { place } = useNavigation();
  const names = traces.map((trace) => oneLine(trace.agent ?? "agent", 30));
  return html`<nav class="tabs sm" aria-label="Agents">
    ${traces.map((trace, at) => {
      const twin = names.filter((name) => name === names[at]).length > 1;
      return html`<${Link} key=${at} to=${place.with({ trace: at || null, branch: null, token: null, node: null })} aria-current=${at === index ? "true" : undefined} title=${trace.trainable === false ? "Not trained" : undefined}>${names[at]}${twin ? ` ${names.slice(0, at + 1).filter((name) => name === names[at]).length}` : ""}</${Link}>`;
    })}
  </nav>`;
}

const MOST = 8;

/** @param {{trace: any, named: string, rendered: boolean}} properties */
export function Branches({ trace, named, rendered }) {
  const { place, go } = useNavigation();
  const { branches } = trace;
  const to = (/** @type {string} */ value) => go(place.with({ branch: value === "0" ? null : value, token: null, node: null }));
  const label = (/** @type {any} */ branch) => html`Branch ${branch.index + 1} <span class="tn dim">${branch.turns === undefined ? "" : `${branch.turns} turn${branch.turns === 1 ? "" : "s"}`}${branch.parts_at ? `, parts at ${branch.parts_at + 1}` : ""}</span>`;
  if (branches.length > MOST) {
    return html`<label class="row"><span class="dim">Branch</span><select class="btn" onChange=${(/** @type {any} */ event) => to(event.currentTarget.value)}>
      ${branches.map((/** @type {any} */ branch) => html`<option key=${branch.index} value=${branch.index} selected=${String(branch.index) === named}>${branch.index + 1}, ${branch.turns} turns${branch.parts_at ? `, parts at ${branch.parts_at + 1}` : ""}</option>`)}
      ${!rendered && html`<option value="all" selected=${named === "all"}>all</option>`}
    </select></label>`;
  }
  return html`<${Choice} label="Branch" value=${named} onChange=${to} options=${[
    ...branches.map((/** @type {any} */ branch) => ({ value: String(branch.index), label: label(branch) })),
    ...(branches.length > 1 && !rendered ? [{ value: "all", label: "All", title: "All messages in the order they were written" }] : []),
  ]} />`;
}
