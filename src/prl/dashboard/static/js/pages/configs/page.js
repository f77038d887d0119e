/** The configs page: what an attempt was started with, resolved and as it was written, and what differs from another. */

import { runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { plural } from "../../lib/format.js";
import { useKeys } from "../../lib/keys.js";
import { useNavigation } from "../../lib/location.js";
import { usePulse } from "../../lib/pulse.js";
import { html, useCallback, useMemo, useRef, useState } from "../../lib/ui.js";
import { Choice, Copy, Search } from "../../parts/controls.js";
import { RunHeader } from "../../parts/header.js";
import { Icon } from "../../parts/icons.js";
import { Empty, Failed, Waiting } from "../../parts/states.js";
import { Differences } from "./differences.js";
import { dotted, pathKey, treeRows } from "./tree.js";

export default function Page() {
  const { place, go } = useNavigation();
  const run = /** @type {string} */ (place.run);
  const set = useCallback((/** @type {import("../../lib/place.js").Changes} */ changes) => go(place.with(changes), { replace: true }), [place]);
  const { data, error, loading, again } = useData(runPath(run, "configs"), { attempt: place.number("attempt") }, { version: usePulse().run?.header ?? null });
  const view = place.get("view", "resolved");
  const failed = error && data === null;
  return html`<div class="configs">
    <${RunHeader} />
    <div class="toolbar">
      <${Choice} label="View" value=${view} onChange=${(/** @type {string} */ next) => set({ view: next === "resolved" ? null : next })} options=${[
        { value: "resolved", label: "Resolved" },
        { value: "files", label: "As written" },
        { value: "environment", label: "Surroundings" },
        { value: "diff", label: "Differences" },
      ]} />
      ${(data?.attempts.length ?? 0) > 1 &&
      html`<label class="row"><span class="dim">Attempt</span><select class="btn" value=${String(data.attempt)} onChange=${(/** @type {any} */ event) => set({ attempt: event.currentTarget.value })}>
        ${data.attempts.map((/** @type {number} */ number) => html`<option key=${number} value=${String(number)}>${number}</option>`)}</select></label>`}
      ${data?.trouble?.length > 0 && html`<span class="warn small"><${Icon} name="warn" size=${12} /> ${data.trouble.join("; ")}</span>`}
    </div>
    ${failed
      ? html`<${Failed} error=${error} what="The configuration could not be read." again=${again} />`
      : html`<${Command} data=${data} />
        <div class=${loading && data ? "old" : ""}>${view === "diff" ? html`<${Differences} run=${run} attempts=${data?.attempts ?? []} attempt=${data?.attempt ?? null} />` : view === "files" ? html`<${Files} files=${data?.files ?? null} />` : html`<${Tree} document=${data && (view === "environment" ? data.environment : data.documents)} loading=${data === null} search=${place.get("q")} set=${set}
              empty=${view === "environment" ? "The launcher recorded no surroundings of this attempt (prime-rl's does not)." : "No resolved configuration. A launcher writes it below configs/attempt_N/resolved when it starts."} />`}</div>`}
  </div>`;
}

/** The command line, whole and to be copied. @param {{data: any}} properties */
function Command({ data }) {
  if (data === null) return html`<div class="command"><${Waiting} width=${30} /></div>`;
  if (!data.command) return html`<div class="command dim">No command line was recorded for this attempt.</div>`;
  return html`<div class="command"><code tabindex="0" aria-label="Command line">${data.command}</code><${Copy} text=${data.command} label="Copy command" />${data.cwd && html`<span class="dim small">in <span class="mono">${data.cwd}</span></span>`}</div>`;
}

/** @param {{files: readonly {name: string, text: string}[] | null}} properties */
function Files({ files }) {
  if (files === null) return html`<p class="state"><${Waiting} width=${20} /></p>`;
  if (files.length === 0) return html`<${Empty}>No configuration file was kept with this attempt.</${Empty}>`;
  return html`${files.map((file) => html`<section key=${file.name} class="file"><header class="row"><h2 class="mono">${file.name}</h2><${Copy} text=${file.text} /></header><pre tabindex="0" aria-label=${file.name}>${file.text}</pre></section>`)}`;
}

/**
 * @param {{document: any, loading: boolean, search: string, empty: string, set: (changes: import("../../lib/place.js").Changes) => void}} properties
 */
function Tree({ document, loading, search, empty, set }) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useKeys([{ keys: "/", about: "Search the configuration", run: () => input.current?.focus() }]);
  const [closed, setClosed] = useState(/** @type {ReadonlySet<string>} */ (new Set()));
  const [active, setActive] = useState(0);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const rows = useMemo(() => treeRows(document, closed, search), [document, closed, search]);
  const toggle = (/** @type {string} */ name) => setClosed((last) => (last.has(name) ? new Set([...last].filter((one) => one !== name)) : new Set([...last, name])));
  const key = (/** @type {KeyboardEvent} */ event) => {
    const row = rows[active];
    const name = row && pathKey(row.path);
    const steps = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1, Home: -rows.length, End: rows.length });
    if (event.key in steps) {
      const next = Math.min(rows.length - 1, Math.max(0, active + steps[event.key]));
      setActive(next);
      window.requestAnimationFrame(() => /** @type {HTMLElement | null} */ (list.current?.querySelector(`[data-row="${next}"]`))?.focus());
    } else if (row?.branch && ((event.key === "ArrowLeft" && !closed.has(name)) || (event.key === "ArrowRight" && closed.has(name)) || event.key === "Enter")) toggle(name);
    else return;
    event.preventDefault();
  };
  if (!loading && (document === null || document === undefined)) return html`<${Empty}>${empty}</${Empty}>`;
  return html`<div class="tree-box">
    <div class="toolbar"><${Search} label="Search keys and values" class="fs" value=${search} input=${input} onChange=${(/** @type {string} */ q) => set({ q })} />
      <button type="button" class="btn quiet" onClick=${() => setClosed(new Set())}>Open all</button>
      <button type="button" class="btn quiet" onClick=${() => setClosed(new Set(treeRows(document, new Set()).filter((row) => row.branch).map((row) => pathKey(row.path))))}>Close all</button></div>
    ${loading && html`<p class="state"><${Waiting} width=${20} /></p>`}
    ${!loading && rows.length === 0 && html`<${Empty}>No key or value holds \u201c${search}\u201d. <button type="button" class="btn" onClick=${() => set({ q: null })}>Clear the search</button></${Empty}>`}
    <div role="tree" aria-label="Configuration" class="tree mono" ref=${list} onKeyDown=${key}>
      ${rows.map((row, index) => {
        const open = row.branch && (search !== "" || !closed.has(pathKey(row.path)));
        return html`<div role="treeitem" key=${pathKey(row.path)} data-row=${index} aria-level=${row.depth + 1} aria-expanded=${row.branch ? String(open) : undefined} aria-selected="false" tabindex=${index === Math.min(active, rows.length - 1) ? 0 : -1}
          class="node d${Math.min(row.depth, 8)}" title=${dotted(row.path)} onClick=${() => (setActive(index), row.branch && toggle(pathKey(row.path)))}>
          <span class="name">${row.branch ? html`<${Icon} name=${open ? "down" : "right"} size=${12} />` : html`<i class="dot"></i>`}${row.name}</span>${row.branch ? html`<span class="faint">${plural(row.size, row.kind === "list" ? "entry" : "key", row.kind === "list" ? "entries" : "keys")}</span>` : html`<span class="value ${row.kind}">${row.text}</span>`}
        </div>`;
      })}
    </div>
  </div>`;
}
