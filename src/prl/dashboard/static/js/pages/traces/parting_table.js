/** The rollouts of a group as rows: what they share, and where they part. */

import { change, count, number } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html } from "../../lib/ui.js";
import { Link } from "../../parts/link.js";
import { visibleText } from "../viewer/visible.js";
import { NA, Reward } from "./columns.js";
import { partedRows } from "./parting.js";

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
