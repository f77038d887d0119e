/** Rollouts in flight: how many in each stage, and the slowest of them as rows above the table. */

import { runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { count, duration } from "../../lib/format.js";
import { useNow } from "../../lib/hooks.js";
import { html } from "../../lib/ui.js";
import { Icon } from "../../parts/icons.js";
import { Link } from "../../parts/link.js";
import { oneLine } from "../viewer/visible.js";
import { STAGES, stageBars } from "./bars.js";
import { NA } from "./columns.js";

export const LIVE_ROW = 28;
const FEW = 4;
const MOST = 200;
const BAR = 380;

/**
 * @typedef {object} Live
 * @property {Record<string, number>} stages
 * @property {any[]} rows  the slowest first
 * @property {number | null} asOf  the server's time of the answer
 */

/** @param {string} run @param {string} version @returns {Live} */
export function useLive(run, version) {
  const { data } = useData(runPath(run, "live"), {}, { version });
  return { stages: data?.stages ?? {}, rows: data?.rows ?? [], asOf: data?.as_of ?? null };
}

/** @param {{live: Live, all: boolean, onAll: () => void}} properties */
export function InFlight({ live, all, onAll }) {
  const total = Object.values(live.stages).reduce((sum, many) => sum + many, 0);
  // Before there is an answer nothing is known, which is not 0.
  const many = (/** @type {number} */ value) => count(live.asOf === null ? null : value);
  const rows = live.rows.filter((row) => row.trace !== null).length;
  const known = STAGES.filter(([stage]) => ["pending", "boot", "setup", "running", "finalize", "scoring"].includes(stage) || live.stages[stage] > 0);
  return html`<section class="flying row" aria-label="In flight">
    <h2 class="tn">In flight, ${many(total)}</h2>
    <svg class="lbar" viewBox="0 0 ${BAR} 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="rail" width=${BAR} height="10" />
      ${stageBars(live.stages, BAR).map(({ stage, fill, x, width }) => html`<rect key=${stage} class=${fill} x=${x} width=${width} height="10" />`)}
    </svg>
    <ul class="leg tn">
      ${known.map(([stage, colour]) => html`<li key=${stage}><i class="sw b${colour}" aria-hidden="true"></i>${title(stage)} <b>${many(live.stages[stage] ?? 0)}</b></li>`)}
    </ul>
    ${rows > FEW && html`<span class="dim small nowrap">${all ? `the ${count(Math.min(rows, MOST))} slowest` : "slowest first"}</span><button type="button" class="lnk small" aria-pressed=${String(all)} onClick=${onAll}>${all ? "Show fewer" : "Show all"}</button>`}
  </section>`;
}

/** @param {string} stage */
const title = (stage) => stage[0].toUpperCase() + stage.slice(1);

/** The rollouts that have rows. @param {Live} live @param {boolean} all */
export function liveRows(live, all) {
  const started = live.rows.filter((row) => row.trace !== null);
  const shown = started.slice(0, all ? MOST : FEW);
  return shown;
}

/**
 * @param {{live: Live, all: boolean, place: import("../../lib/place.js").Place, longest: number}} properties
 */
export function LiveBody({ live, all, place, longest }) {
  const shown = liveRows(live, all);
  return html`<tbody class="livet" aria-label="In flight">
    ${shown.map((/** @type {any} */ row) => html`<${LiveRow} key=${row.trace} row=${row} place=${place} longest=${longest} asOf=${live.asOf} span=${4} />`)}
  </tbody>`;
}

/** @param {{row: any, place: import("../../lib/place.js").Place, longest: number, asOf: number | null, span: number}} properties */
function LiveRow({ row, place, longest, asOf, span }) {
  const now = useNow(1);
  // The server's clock and this one's may differ: only what passed since the answer is added.
  const elapsed = row.elapsed === null ? null : row.elapsed + (asOf === null ? 0 : Math.max(0, Math.min(30, now - asOf)));
  const wide = elapsed === null ? 0 : Math.min(150, (elapsed / longest) * 150);
  const colour = STAGES.find(([stage]) => stage === row.stage)?.[1] ?? "0";
  return html`<tr>
    <td class="c-ep"><${Link} to=${place.with({ live: row.trace, episode: null })} title="Open it as far as it has come"><${Icon} name="live" size=${14} /><span class="ph">${title(row.stage)}</span></${Link}></td>
    <td class="c-env">${oneLine(row.env ?? "", 80)}</td>
    <td class="c-task mono dim">${oneLine(row.task ?? "", 60)}</td>
    <td class="c-step num">${row.step === null ? NA : count(row.step)}</td>
    <td class="c-lag num"></td>
    <td class="c-time"><svg class="timing" width="150" height="12" viewBox="0 0 150 12" aria-hidden="true"><path class="g" d="M0 6H150" /><rect class="f${colour}" y="3" width=${Math.max(1.5, wide)} height="6" /></svg></td>
    <td class="c-took num tn">${duration(elapsed === null ? null : Math.round(elapsed))}</td>
    <td class="c-turns num">${count(row.turns)}</td>
    <td class="c-in num dim">${count(row.input_tokens)}</td>
    <td class="c-out num dim">${count(row.output_tokens)}</td>
    <td class="c-last mono dim" colspan=${span}>${oneLine(row.last ?? "", 160)}</td><td class="only-s"></td><td class="only-s"></td>
  </tr>`;
}
