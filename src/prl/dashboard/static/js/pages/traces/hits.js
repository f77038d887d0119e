/** Where a text occurs in what models, environments and tasks wrote: the newest episodes first, read on demand. */

import { address, ask, runPath } from "../../lib/api.js";
import { bytes, count, plural } from "../../lib/format.js";
import { useKeys } from "../../lib/keys.js";
import { useNavigation } from "../../lib/location.js";
import { html, useEffect, useRef, useState } from "../../lib/ui.js";
import { Check } from "../../parts/controls.js";
import { Link } from "../../parts/link.js";
import { Empty, Failed } from "../../parts/states.js";
import { visibleText } from "../viewer/visible.js";
import { filterParameters } from "./filters.js";

const LIMIT = 50;
/** Answers after which reading on is asked for by hand, so that a rare word in a long run does not read it all unasked. */
const ROUNDS = 8;

/** @typedef {{hits: any[], cursor: string | null, done: boolean, scanned: number, total: number, rounds: number, error: Error | null, busy: boolean}} Found */

/** @type {Found} */
const NOTHING = { hits: [], cursor: null, done: false, scanned: 0, total: 0, rounds: 0, error: null, busy: true };

/** @param {{text: string}} properties */
export function Hits({ text }) {
  const { place, go } = useNavigation();
  const [regex, strict] = [place.flag("regex"), place.flag("case")];
  const path = runPath(/** @type {string} */ (place.run), "episodes", "search");
  const parameters = { ...filterParameters(place), q: text, regex: regex ? 1 : null, case: strict ? 1 : null, limit: LIMIT };
  const key = address(path, parameters);
  const [found, setFound] = useState(NOTHING);
  const [wanted, setWanted] = useState(ROUNDS);

  useEffect(() => {
    setFound(NOTHING);
    setWanted(ROUNDS);
  }, [key]);
  useEffect(() => {
    if (found.done || found.error || found.rounds >= wanted || (found.hits.length >= LIMIT && found.rounds >= wanted - ROUNDS + 1)) {
      if (found.busy) setFound((last) => ({ ...last, busy: false }));
      return undefined;
    }
    const stop = new AbortController();
    ask(address(path, { ...parameters, cursor: found.cursor }), { signal: stop.signal }).then(
      (said) => setFound((last) => ({ ...last, hits: [...last.hits, ...said.hits], cursor: said.cursor, done: said.done, scanned: said.scanned_bytes ?? 0, total: said.total_bytes ?? 0, rounds: last.rounds + 1, busy: !said.done })),
      (error) => stop.signal.aborted || setFound((last) => ({ ...last, error, busy: false })),
    );
    return () => stop.abort();
  }, [key, found.rounds, wanted, found.error]);

  const list = useRef(/** @type {HTMLOListElement | null} */ (null));
  const walk = (/** @type {number} */ by) => {
    const links = [...(list.current?.querySelectorAll("a") ?? [])];
    const at = links.indexOf(/** @type {HTMLAnchorElement} */ (document.activeElement));
    links[at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
  };
  useKeys([
    { keys: "n", about: "Next hit", run: () => walk(1) },
    { keys: "N", about: "Hit before", run: () => walk(-1) },
    { keys: "Escape", about: "Back to the list", run: () => go(place.with({ text: null, regex: null, case: null })), hidden: true },
  ]);
  const more = () => setWanted(found.rounds + ROUNDS);
  return html`<section class="hits" aria-label="Hits">
    <header class="row">
      <h2 class="tn" aria-live="polite">${plural(found.hits.length, "hit")}${found.done ? "" : " so far"}</h2>
      <${Check} checked=${regex} onChange=${(/** @type {boolean} */ on) => go(place.with({ regex: on }), { replace: true })}>Regular expression</${Check}>
      <${Check} checked=${strict} onChange=${(/** @type {boolean} */ on) => go(place.with({ case: on }), { replace: true })}>Match case</${Check}>
      <span class="dim small tn">${found.total > 0 ? `${bytes(found.scanned)} of ${bytes(found.total)} read, newest first` : ""}</span>
      <span class="grow"></span>
      <${Link} to=${place.with({ text: null, regex: null, case: null })}>Back to the list</${Link}>
    </header>
    ${found.error && html`<${Failed} error=${found.error} what="The search stopped." again=${() => setFound((last) => ({ ...last, error: null, busy: true }))} />`}
    <ol ref=${list}>${found.hits.map((hit, index) => html`<${Hit} key=${index} hit=${hit} text=${text} />`)}</ol>
    ${found.hits.length === 0 && found.done && html`<${Empty}>Nobody wrote this${Object.keys(filterParameters(place)).length > 0 ? " in the episodes that pass the filters" : ""}.</${Empty}>`}
    ${!found.done && !found.error && html`<p class="state">${found.busy ? html`<span class="faint">Reading</span>` : html`<button type="button" class="btn" onClick=${more}>Read on</button>`}</p>`}
  </section>`;
}

/** @param {{hit: any, text: string}} properties */
function Hit({ hit, text }) {
  const { place } = useNavigation();
  // The server counts characters, not halves of them.
  const excerpt = Array.from(String(hit.excerpt));
  const piece = (/** @type {number} */ from, /** @type {number} */ to) => excerpt.slice(from, to).join("");
  const matched = piece(hit.start, hit.end) || text;
  const to = place.with({ text: null, regex: null, case: null, hit: text, episode: hit.ref, trace: hit.trace, node: hit.node, quote: matched.slice(0, 300), overlay: null });
  return html`<li><${Link} to=${to}>
    <span class="tn acc">${count(hit.line)}</span><span class="dim">${[hit.role ?? hit.field, hit.node === null || hit.node === undefined ? null : `message ${hit.node + 1}`].filter(Boolean).join(", ")}</span>
    <span class="mono ex">${visibleText(piece(0, hit.start))}<mark>${visibleText(piece(hit.start, hit.end))}</mark>${visibleText(piece(hit.end, excerpt.length))}</span>
  </${Link}></li>`;
}
