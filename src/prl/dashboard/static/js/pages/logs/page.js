/** The logs page: components merged by time or side by side, search over whole files, jumps, known failures. */

import { runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { useRested } from "../../lib/hooks.js";
import { useKeys } from "../../lib/keys.js";
import { useNavigation } from "../../lib/location.js";
import { usePulse } from "../../lib/pulse.js";
import { html, useCallback, useEffect, useMemo, useState } from "../../lib/ui.js";
import { RunHeader } from "../../parts/header.js";
import { Icon } from "../../parts/icons.js";
import { Components, LogBar } from "./bar.js";
import { useFeed } from "./feed.js";
import { ChosenLine } from "./chosen.js";
import { holds, patternOf } from "./lines.js";
import { Hits, Rail } from "./rail.js";
import { useSearch } from "./search.js";
import { LogLines } from "./view.js";

const COLUMNS = 4;

export default function Page() {
  const { place, go } = useNavigation();
  const run = /** @type {string} */ (place.run);
  const logs = usePulse().run?.logs ?? null;
  const set = useCallback((/** @type {import("../../lib/place.js").Changes} */ changes) => go(place.with(changes), { replace: true }), [place]);
  const attempt = place.number("attempt");
  const files = useData(runPath(run, "logs", "files"), { attempt }, { version: logs }).data;
  const rail = useData(runPath(run, "logs", "rail"), { attempt, bins: 180 }, { version: logs && Math.floor(Date.now() / 10000) }).data;
  const [typed, setTyped] = useState(place.get("q"));
  const text = useRested(typed, 250);
  useEffect(() => {
    if (text !== place.get("q")) set({ q: text });
  }, [text]);
  const regex = place.flag("regex");
  const search = useSearch(run, place.get("q"), regex, attempt, place.all("component"));
  const [hit, setHit] = useState(0);
  const [seen, setSeen] = useState(/** @type {[number | null, number | null]} */ ([null, null]));
  const colors = useMemo(() => new Map((files?.components ?? []).map((/** @type {any} */ one, /** @type {number} */ index) => [one.name, (index % 6) + 1])), [files]);
  const goHit = (/** @type {number} */ index) => {
    const found = search.hits[(index + search.hits.length) % search.hits.length];
    if (!found) return;
    setHit(search.hits.indexOf(found));
    set({ file: found.file, offset: String(found.offset), at: null });
  };
  useKeys([
    { keys: "n", about: "Next hit", run: () => goHit(hit + 1) },
    { keys: "N", about: "Previous hit", run: () => goHit(hit - 1) },
    { keys: "End", about: "Newest lines", run: () => set({ at: null, file: null, offset: null }) },
  ]);
  const pattern = useMemo(() => patternOf(place.get("q"), regex), [place.get("q"), regex]);
  const shared = { run, place, set, incidents: rail?.incidents ?? NO_INCIDENTS, colors, pattern };
  const chosen = place.all("component");
  const columns = place.get("view") === "split" ? columnsOf(files, chosen) : null;
  return html`<div class="logs">
    <${RunHeader} />
    <${LogBar} text=${typed} onText=${setTyped} regex=${regex} only=${place.flag("only")} level=${place.get("level")} split=${columns !== null} files=${files}
      hits=${search.hits.length} hit=${hit} done=${search.done} near=${seen[1] ?? rail?.end ?? Date.now() / 1000} set=${set} />
    <${Components} files=${files} chosen=${chosen} colors=${colors} set=${set} />
    <div class="lw ${columns ? "split" : ""}">
      ${columns
        ? html`<div class="columns">${columns.map((name) => html`<section key=${name} aria-label=${name}><h2><i class="sw b${colors.get(name) ?? 0}"></i>${name}</h2><${Lines} ...${shared} components=${[name]} narrow /></section>`)}</div>`
        : html`<${Lines} ...${shared} components=${chosen} onSeen=${(/** @type {number | null} */ from, /** @type {number | null} */ to) => setSeen((last) => (last[0] === from && last[1] === to ? last : [from, to]))} />`}
      <aside class="rl">
        ${place.get("q") && html`<${Hits} hits=${search.hits} at=${hit} done=${search.done} total=${search.total} scanned=${search.scanned} error=${search.error} onHit=${goHit} onMore=${search.more} />`}
        <${Rail} rail=${rail} hits=${search.hits} seen=${seen} onTime=${(/** @type {number} */ at) => set({ at: at.toFixed(3), file: null, offset: null })} />
      </aside>
    </div>
  </div>`;
}

/** @type {readonly never[]} */
const NO_INCIDENTS = [];

/** @param {any} files @param {readonly string[]} chosen @returns {string[]} the components that stand side by side */
function columnsOf(files, chosen) {
  const components = files?.components ?? [];
  return components.filter((/** @type {any} */ one) => (chosen.length ? chosen.includes(one.name) : one.default)).slice(0, COLUMNS).map((/** @type {any} */ one) => one.name);
}

/**
 * @param {{run: string, place: import("../../lib/place.js").Place, set: (changes: import("../../lib/place.js").Changes) => void, components: readonly string[],
 *   incidents: readonly any[], colors: Map<string, number>, pattern: RegExp | null, narrow?: boolean, onSeen?: (from: number | null, to: number | null) => void}} properties
 */
function Lines({ run, place, set, components, incidents, colors, pattern, narrow = false, onSeen }) {
  const [file, offset, at] = [place.get("file"), place.number("offset"), place.number("at")];
  const only = place.flag("only") ? { q: place.get("q"), regex: place.flag("regex") } : {};
  const filter = { attempt: place.number("attempt"), component: components, level: place.get("level"), ...only };
  const anchor = file && offset !== null ? { file, offset } : at !== null ? { at } : null;
  const feed = useFeed(run, filter, anchor);
  const level = place.get("level");
  const empty = only.q ? `No line matches \u201c${only.q}\u201d.` : level ? `No line at ${level.toLowerCase()} or above. Lower the level to see more.` : "No logs yet. Each component's appear when its process starts.";
  return html`<div class="lines">
    <${LogLines} label="Log lines" feed=${feed} incidents=${incidents} colors=${colors} pattern=${pattern} narrow=${narrow}
      chosen=${file && offset !== null ? { file, offset } : null} onSeen=${onSeen} empty=${empty}
      onChoose=${(/** @type {any} */ entry) => set({ file: entry.file, offset: String(entry.offset), at: null })} />
    <${ChosenLine} entry=${file && offset !== null ? (feed.entries.find((entry) => holds(entry, { file, offset })) ?? null) : null} onClose=${(/** @type {any} */ entry) => set({ file: null, offset: null, at: entry.time === null ? null : entry.time.toFixed(3) })} />
    <p class="foot small ${feed.error ? "bad" : "dim"}">${feed.error && feed.entries.length > 0 ? html`<${Icon} name="bad" size=${12} /> ${feed.error.message} <button type="button" class="btn quiet" onClick=${feed.again}>Try again</button>` : feed.atEnd ? html`<${Icon} name="live" size=${12} /> Following the newest lines` : "Not at the newest lines"}
      ${feed.trouble.map((text) => html`<span class="warn"><${Icon} name="warn" size=${12} /> ${text}</span>`)}</p>
  </div>`;
}
