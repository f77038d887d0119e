/** What differs between two attempts, of one run or of two. Both are in the address: `a` and `b`, "<run>:<attempt>". */

import { useData } from "../../lib/data.js";
import { count } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html } from "../../lib/ui.js";
import { Icon } from "../../parts/icons.js";
import { Empty, Failed, Waiting } from "../../parts/states.js";
import { literal } from "./tree.js";

/** @param {{run: string, attempts: readonly number[], attempt: number | null}} properties */
export function Differences({ run, attempts, attempt }) {
  const { place, go } = useNavigation();
  const runs = useData("runs").data;
  const newest = attempt ?? attempts.at(-1);
  const b = place.get("b") || (newest === undefined ? "" : `${run}:${newest}`);
  const earlier = attempts.filter((number) => number !== newest).at(-1);
  const a = place.get("a") || (earlier === undefined ? "" : `${run}:${earlier}`);
  const ready = a !== "" && b !== "";
  const { data, error, again, loading } = useData(ready ? "config-diff" : null, { a, b });
  const options = [
    ...attempts.map((number) => ({ value: `${run}:${number}`, label: `This run, attempt ${number}` })),
    ...(runs?.rows ?? []).filter((/** @type {any} */ one) => one.id !== run && one.attempt !== null).map((/** @type {any} */ one) => ({ value: `${one.id}:${one.attempt}`, label: `${one.name}, attempt ${one.attempt}` })),
  ];
  const pick = (/** @type {"a" | "b"} */ side, /** @type {string} */ value) => html`<label class="row"><span class="dim">${side === "a" ? "Before" : "After"}</span>
    <select class="btn" value=${value} onChange=${(/** @type {any} */ event) => go(place.with({ [side]: event.currentTarget.value }), { replace: true })}>
      ${value === "" && html`<option value="">choose</option>`}
      ${options.map((option) => html`<option key=${option.value} value=${option.value}>${option.label}</option>`)}
    </select></label>`;
  return html`<div class="toolbar">${pick("a", a)}${pick("b", b)}${data && html`<span class="dim tn">${count(data.counts.all)} keys differ</span>`}</div>
    ${!ready && html`<${Empty}>This run has one attempt. Choose another run's to compare it with.</${Empty}>`}
    ${error && html`<${Failed} error=${error} what="The configurations could not be compared." again=${again} />`}
    ${ready && loading && !data && html`<p class="state"><${Waiting} width=${20} /></p>`}
    ${data && data.rows.length === 0 && html`<${Empty}>Nothing differs.</${Empty}>`}
    ${data && data.rows.length > 0 &&
    html`<table class="table diff" aria-label="Keys that differ"><thead><tr><th scope="col">Key</th><th scope="col" class="kind">Change</th><th scope="col">Before</th><th scope="col">After</th></tr></thead>
      <tbody>${data.rows.map(
        (/** @type {any} */ row) => html`<tr key=${row.key}><td class="mono" title=${row.key}>${row.key}</td><td class="kind">${row.kind}</td>
          <td class="mono" title=${literal(row.before)}>${row.kind === "added" ? html`<span class="dim">not set</span>` : literal(row.before)}</td>
          <td class="mono acc" title=${literal(row.after)}>${row.kind === "removed" ? html`<span class="dim">not set</span>` : literal(row.after)}</td></tr>`,
      )}</tbody></table>
      ${data.truncated && html`<p class="state warn"><${Icon} name="warn" size=${12} /> More keys differ than are shown.</p>`}`}`;
}
