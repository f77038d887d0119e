/** The rollouts of a group turn by turn: as one row each, or as columns to be read beside one another. */

import { address, ask, runPath } from "../../lib/api.js";
import { count } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html, useEffect, useState } from "../../lib/ui.js";
import { Link } from "../../parts/link.js";
import { oneLine, visibleText } from "../viewer/visible.js";
import { Reward } from "./columns.js";

/** Rollouts that are read: each is a whole record. */
const MOST = 16;

/**
 * What each rollout's model wrote, by turn.
 * @param {readonly any[]} rollouts
 * @returns {({turns: {node: number, text: string, tokens: number}[]} | Error | null)[]}
 */
function useTurns(rollouts) {
  const { place } = useNavigation();
  const refs = rollouts.slice(0, MOST).map(({ row }) => row.ref);
  const [read, setRead] = useState(/** @type {Record<string, any>} */ ({}));
  const key = refs.join(" ");
  useEffect(() => {
    const stop = new AbortController();
    for (const ref of refs.filter((one) => !(one in read))) {
      ask(address(runPath(/** @type {string} */ (place.run), "episodes", ref)), { signal: stop.signal }).then(
        (said) => setRead((last) => ({ ...last, [ref]: { turns: turnsOf(said) } })),
        (error) => stop.signal.aborted || setRead((last) => ({ ...last, [ref]: error })),
      );
    }
    return () => stop.abort();
  }, [key]);
  return refs.map((ref) => read[ref] ?? null);
}

/** The messages that the model wrote in the first branch of the first trace. @param {any} episode */
function turnsOf(episode) {
  const trace = episode.traces[0];
  if (!trace) return [];
  const path = trace.branches[0]?.nodes ?? trace.nodes.map((/** @type {any} */ { index }) => index);
  const on = new Set(path);
  return trace.nodes.filter((/** @type {any} */ node) => on.has(node.index) && node.role === "assistant").map((/** @type {any} */ node) => ({ node: node.index, tokens: node.tokens, text: textOf(node) }));
}

/** @param {any} node */
function textOf(node) {
  return node.parts.map((/** @type {any} */ part) => (part.type === "tool_call" ? `${part.name}(${part.text})` : part.text)).join("\n");
}

/** @param {{rollouts: readonly any[]}} properties */
export function ByTurn({ rollouts }) {
  const { place } = useNavigation();
  const read = useTurns(rollouts);
  const most = Math.max(1, ...read.map((one) => (one && "turns" in one ? one.turns.length : 0)));
  return html`<div class="table-box"><table class="byturn" aria-label="Rollouts by turn">
    <thead><tr><th scope="col" class="num">#</th><th scope="col">Reward</th>${Array.from({ length: most }, (_, turn) => html`<th key=${turn} scope="col">Turn ${turn + 1}</th>`)}</tr></thead>
    <tbody>${rollouts.slice(0, MOST).map(({ row }, index) => {
      const one = read[index];
      return html`<tr key=${row.ref}><td class="num"><${Link} to=${place.with({ episode: row.ref, sel: row.ref })}>${index + 1}</${Link}></td><td class="rwd"><${Reward} value=${row.reward} range=${[0, 1]} digits=${2} /></td>
        ${one === null ? html`<td><span class="waiting"></span></td>` : one instanceof Error ? html`<td class="bad" colspan=${most}>${one.message}</td>` : one.turns.map((turn) => html`<td key=${turn.node}><${Link} class="turn" to=${place.with({ episode: row.ref, sel: row.ref, node: turn.node })}><span class="mono">${oneLine(turn.text, 140) || "nothing"}</span> <span class="faint tn">${count(turn.tokens)}</span></${Link}></td>`)}
      </tr>`;
    })}</tbody>
  </table></div>`;
}

/** @param {{rollouts: readonly any[], at: string | null}} properties */
export function SideBySide({ rollouts, at }) {
  const { place } = useNavigation();
  const read = useTurns(rollouts);
  return html`<div class="side" tabindex="0" role="group" aria-label="Rollouts side by side">${rollouts.slice(0, MOST).map(({ row }, index) => {
    const one = read[index];
    return html`<article key=${row.ref} class=${row.ref === at ? "on" : ""} aria-label="Rollout ${index + 1}">
      <header class="row"><${Link} to=${place.with({ episode: row.ref, sel: row.ref })}>${index + 1}</${Link}><${Reward} value=${row.reward} range=${[0, 1]} digits=${2} /></header>
      ${one === null ? html`<span class="waiting"></span>` : one instanceof Error ? html`<p class="bad">${one.message}</p>` : one.turns.map((turn, nth) => html`<div key=${turn.node} class="said"><span class="faint small">turn ${nth + 1}</span><p class="mono">${visibleText(turn.text.slice(0, 4000))}${turn.text.length > 4000 ? "\u2026" : ""}</p></div>`)}
    </article>`;
  })}</div>`;
}
