/** The columns of the table of episodes. */

import { change, clock, count, duration, fixed, moment } from "../../lib/format.js";
import { html } from "../../lib/ui.js";
import { Icon } from "../../parts/icons.js";
import { Link } from "../../parts/link.js";
import { oneLine } from "../viewer/visible.js";
import { rewardBar, timingBars } from "./bars.js";

const TIMING = 150;
const REWARD = 56;

/**
 * @param {import("../../lib/place.js").Place} place
 * @param {{longest: number, rewards: readonly [number, number] | null}} scale
 * @returns {import("../../parts/table.js").Column<any>[]}
 */
export function columnsOf(place, { longest, rewards }) {
  return [
    { id: "arrival", label: "Episode", class: "c-ep", sortable: true, cell: (row, index) => html`<${Link} class="tn" to=${place.with({ episode: row.ref, row: index, sel: row.ref })} title=${`Arrived ${moment(row.arrival)}`}>${count(row.line)}</${Link}>` },
    { id: "env", label: "Environment", class: "c-env", sortable: true, cell: (row) => html`<span title=${oneLine(row.env ?? "", 400)}>${oneLine(row.env ?? "", 80)}</span>${row.kind === "eval" && html` <span class="tag">eval</span>`}` },
    { id: "task", label: "Task", class: "c-task mono dim", sortable: true, cell: (row) => html`<span title=${oneLine(row.task ?? "", 400)}>${oneLine(row.task ?? "", 60)}</span>` },
    { id: "step", label: "Step", class: "c-step", number: true, sortable: true, title: "The step whose batch it went into", cell: (row) => whole(row.ship_step) },
    { id: "lag", label: "Lag", class: "c-lag", number: true, title: "Steps between being sent out and being trained on", cell: (row) => whole(row.lag) },
    { id: "timing", label: "Boot, setup, run, score", class: "c-time", cell: (row) => html`<${Timing} row=${row} longest=${longest} />` },
    { id: "duration", label: "Took", class: "c-took", number: true, sortable: true, cell: (row) => html`<span title=${`${clock(row.dispatch)} to ${clock(row.arrival)}`}>${duration(row.duration)}</span>` },
    { id: "turns", label: "Turns", class: "c-turns", number: true, sortable: true, cell: (row) => whole(row.turns) },
    { id: "input_tokens", label: "Tokens in", class: "c-in dim", number: true, sortable: true, cell: (row) => whole(row.input_tokens) },
    { id: "output_tokens", label: "Tokens out", class: "c-out dim", number: true, sortable: true, cell: (row) => whole(row.output_tokens) },
    { id: "stop", label: "Stop", class: "c-stop", sortable: true, cell: (row) => html`<span title=${oneLine(row.stop_condition ?? "", 400)}>${words(row.stop_condition)}</span>` },
    { id: "note", label: "Note", class: "c-note", cell: (row) => html`<${Note} note=${row.note} />` },
    { id: "reward", label: "Reward", class: "c-reward", number: true, sortable: true, cell: (row) => html`<${Reward} value=${row.reward} range=${rewards} />` },
    { id: "advantage", label: "Advantage", class: "c-adv", number: true, sortable: true, cell: (row) => (row.advantage === null ? NA : change(row.advantage, (value) => fixed(value, 3))) },
  ];
}

export const NA = html`<span class="faint">n/a</span>`;

/** @param {number | null} value */
const whole = (value) => (value === null || value === undefined ? NA : count(value));

/** A machine's name in words: "max_output_tokens" reads "max output tokens". @param {string | null} name */
export function words(name) {
  return name === null || name === undefined ? "" : oneLine(name, 60).replaceAll("_", " ");
}

/** Why a row is worth a look: an icon and a word. @param {{note: {kind: string | null, text: string | null} | null}} properties */
export function Note({ note }) {
  if (!note?.kind) return null;
  const bad = note.kind === "error";
  return html`<span class="badge nb ${bad ? "bad" : "warn"}" title=${oneLine(note.text ?? "", 400)}><${Icon} name=${bad ? "bad" : "warn"} size=${14} /><span class="clip">${oneLine(note.text ?? note.kind, 120)}</span></span>`;
}

/** @param {{value: number | null, range: readonly [number, number] | null, width?: number, digits?: number}} properties */
export function Reward({ value, range, width = REWARD, digits = 3 }) {
  if (value === null || value === undefined) return NA;
  const bar = rewardBar(value, range, width);
  return html`<span class="rwd"><svg width=${width} height="12" viewBox="0 0 ${width} 12" aria-hidden="true">
      <rect class="rail" y="4" width=${width} height="4" rx="1" /><rect class="fill" x=${bar.x} y="4" width=${bar.width} height="4" rx="1" />
    </svg><span class="tn">${fixed(value, digits)}</span></span>`;
}

/** Where the time of an episode went. @param {{row: any, longest: number}} properties */
export function Timing({ row, longest }) {
  const parts = timingBars(row.timing, row.duration, longest, TIMING);
  const said = parts.map(({ part, seconds }) => `${part} ${duration(seconds)}`).join(", ");
  return html`<svg class="timing" width=${TIMING} height="12" viewBox="0 0 ${TIMING} 12" role="img" aria-label=${said || "not known"}>
    <title>${said}</title><path class="g" d="M0 6H${TIMING}" />
    ${parts.map(({ part, fill, x, width }) => html`<rect key=${part} class=${fill} x=${x} y="3" width=${width} height="6" />`)}
  </svg>`;
}
