/** The transcript: only the pieces near the screen are drawn, tokens are loaded for them, one token is the tab stop. */

import { address, ask, runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { useKeys } from "../../lib/keys.js";
import { useNavigation } from "../../lib/location.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../lib/ui.js";
import { Failed } from "../../parts/states.js";
import { Heights, besideToken, pieceOfToken, piecesBetween, tokenAt } from "./chunks.js";
import { useQuotes } from "./highlights.js";
import { Legend } from "./legend.js";
import { nextMarked } from "./marked.js";
import { Piece } from "./message.js";
import { Minimap } from "./minimap.js";
import { boundsOf, OF_ALL_MESSAGES, OVERLAYS, shownOverlay } from "./overlays.js";
import { Overlays } from "./overlay_choice.js";
import { describe } from "./readout.js";
import { Shared } from "./shared.js";
import { Tokens } from "./tokens.js";
import { messageOfNode, messagesOf, piecesOf } from "./transcript.js";
import { aboveToken } from "./walk.js";

/** Pixels beyond either edge in which pieces are drawn. */
const SPARE = 500;

/**
 * @param {{data: any, trace: any, index: number, branch: import("./transcript.js").Branch | null, seen: Shared<import("./readout.js").Seen | null>}} properties
 */
export function Transcript({ data, trace, index, branch, seen }) {
  const { place, go } = useNavigation();
  const unavailable = branch === null ? ALL : trace.unavailable;
  const overlay = shownOverlay(place.get("overlay"), unavailable, place.get("token") !== "");
  const scale = place.get("scale") === "trace" ? "trace" : "fixed";
  const path = runPath(/** @type {string} */ (place.run), "episodes", data.row.ref);
  const nodes = useNodes(path, index, trace, data.live === true);
  const map = useData(overlay.stream === null || branch === null ? null : `${path}/token-map`, { trace: index, branch: branch?.index, stream: overlay.stream, bins: 800, threshold: overlay.threshold }, { version: data.updates, keep: false });
  const bounds = useMemo(() => boundsOf(overlay, scale, map.data), [overlay, scale, map.data]);

  const [version, setVersion] = useState(0);
  const tokens = useMemo(
    () => new Tokens(branch?.tokens ?? 0, (start, limit) => ask(address(`${path}/tokens`, { trace: index, branch: branch?.index ?? 0, start, limit })), () => setVersion((last) => last + 1)),
    [path, index, branch?.index, branch?.tokens],
  );
  const updates = useRef(data.updates);
  useEffect(() => {
    if (updates.current !== data.updates) tokens.renew();
    updates.current = data.updates;
  }, [data.updates]);
  const form = overlay.stream === null ? "none" : OF_ALL_MESSAGES.includes(overlay.id) ? "all" : "sampled";
  const messages = useMemo(() => messagesOf(nodes, branch, form), [nodes, branch, form]);
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [width, setWidth] = useState(800);
  const pieces = useMemo(() => piecesOf(messages, (nominal) => tokens.cut(nominal), width), [messages, version, width]);
  const heights = useMemo(() => new Heights(), [form]);
  const [measured, setMeasured] = useState(0);
  const tops = useMemo(() => heights.tops(pieces), [pieces, heights, measured]);
  const screen = useMemo(() => new Shared(/** @type {{from: number, to: number}} */ ({ from: 0, to: 0 })), []);
  const [range, setRange] = useState(/** @type {[number, number]} */ ([0, 8]));

  const look = () => {
    const element = box.current;
    if (!element) return;
    const [top, height] = [element.scrollTop, element.clientHeight];
    const next = piecesBetween(tops, top - SPARE, top + height + SPARE);
    setRange((last) => (last[0] === next[0] && last[1] === next[1] ? last : next));
    if (branch !== null) screen.set({ from: tokenAt(pieces, tops, top), to: tokenAt(pieces, tops, top + height) });
  };
  useLayoutEffect(look, [tops]);
  const looks = useRef(look);
  looks.current = look;
  useEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    const sized = new ResizeObserver(() => {
      setWidth(Math.max(160, element.clientWidth - 184));
      looks.current();
    });
    sized.observe(element);
    const scrolled = () => looks.current();
    element.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      sized.disconnect();
      element.removeEventListener("scroll", scrolled);
    };
  }, []);
  const measure = useMeasured(heights, () => setMeasured((last) => last + 1));

  const { quotes, quoted } = useQuotes(messages, tokens, version, form);
  const active = place.number("token");
  const pinned = useRef(false);
  const wanted = useRef(/** @type {{token?: number, node?: number, focus: boolean} | null} */ (null));
  const told = (/** @type {number | null} */ position) => seen.set(position === null ? null : describe(tokens, position, { overlay, bounds, messages, data, pinned: pinned.current }));

  const goTo = (/** @type {number} */ token, /** @type {boolean} */ focus) => {
    wanted.current = { token, focus };
    go(place.with({ token, overlay: place.get("overlay") || overlay.id, node: null }), { replace: true });
    setRange((last) => /** @type {[number, number]} */ ([...last]));
  };
  useEffect(() => {
    // An address that names a token or a message is gone to once; what is marked, when nothing else is named.
    const node = place.number("node") ?? quotes.find((quote) => quote.node !== undefined)?.node ?? null;
    if (active !== null) wanted.current = { token: active, focus: false };
    else if (node !== null) wanted.current = { node, focus: false };
    setMeasured((last) => last + 1);
  }, [place.get("node"), place.get("marks"), quotes.length > 0, form]);
  useEffect(() => {
    pinned.current = pinned.current && active !== null;
    if (active !== null && tokens.need(active, active + 1)) told(active);
    else if (active === null) told(null);
  }, [active, version, overlay, bounds]);
  useLayoutEffect(() => {
    const aim = wanted.current;
    const element = box.current;
    if (!aim || !element || pieces.length === 0) return;
    const target = aim.token !== undefined ? element.querySelector(`[data-p="${aim.token}"]`) : element.querySelector(`[data-node="${aim.node}"] mark, [data-node="${aim.node}"]`);
    if (target) {
      wanted.current = null;
      reveal(element, target);
      if (aim.focus) /** @type {HTMLElement} */ (target).focus({ preventScroll: true });
      return;
    }
    const piece = aim.token !== undefined ? pieceOfToken(pieces, aim.token) : pieces.findIndex(({ message }) => message === messageOfNode(messages, /** @type {number} */ (aim.node)));
    if (piece < 0) return;
    const { first, last } = pieces[piece];
    if (aim.token !== undefined && (aim.token < first || aim.token >= last) && range[0] <= piece && piece < range[1]) wanted.current = null;
    if (tops[piece] < element.scrollTop || tops[piece] > element.scrollTop + element.clientHeight * 0.8) element.scrollTop = Math.max(0, tops[piece] - element.clientHeight / 4);
    look();
  });

  const marked = map.data?.marked ?? [];
  const walk = (/** @type {1 | -1} */ by) => {
    const next = nextMarked(marked, active ?? (by > 0 ? screen.value.from - 1 : screen.value.to), by);
    if (next !== null) goTo(next, true);
  };
  const furthest = () => typeof map.data?.furthest === "number" && goTo(map.data.furthest, true);
  useKeys([
    { keys: "n", about: "Next marked token", run: () => walk(1) },
    { keys: "N", about: "Marked token before", run: () => walk(-1) },
    { keys: "w", about: "The token farthest from zero", run: () => furthest() },
  ]);
  const key = (/** @type {KeyboardEvent} */ event) => {
    const element = /** @type {HTMLElement} */ (event.target);
    const position = Number(element.getAttribute("data-p") ?? NaN);
    if (Number.isNaN(position)) return;
    const beside = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const line = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    let next = null;
    if (beside !== undefined) next = besideToken(pieces, position, /** @type {1 | -1} */ (beside));
    else if (line !== undefined) next = aboveToken(/** @type {HTMLElement} */ (box.current), element, /** @type {1 | -1} */ (line));
    else if (event.key === " ") {
      pinned.current = !pinned.current;
      told(position);
    } else if (event.key === "Escape" && pinned.current) {
      pinned.current = false;
      told(position);
      event.stopPropagation();
    } else return;
    event.preventDefault();
    if (next !== null) {
      pinned.current = false;
      goTo(next, true);
    }
  };
  const over = (/** @type {PointerEvent} */ event) => {
    if (pinned.current) return;
    const position = positionOf(event.target);
    told(position ?? active);
  };
  const click = (/** @type {MouseEvent} */ event) => {
    const position = positionOf(event.target);
    if (position === null || String(window.getSelection() ?? "")) return;
    pinned.current = false;
    go(place.with({ token: position, overlay: place.get("overlay") || overlay.id, node: null }), { replace: true });
  };

  const stop = tabStop(active, pieces, range);
  const paint = useMemo(() => ({ overlay, bounds, active, stop, quoted }), [overlay, bounds, active, stop, quoted]);
  return html`${trace.branches.length > 0 && !data.live && html`<${Overlays} overlay=${overlay} unavailable=${unavailable} />`}
    ${overlay.stream !== null && html`<${Legend} overlay=${overlay} scale=${scale} bounds=${bounds} map=${map.data} tokens=${tokens} onWalk=${walk} onFurthest=${furthest} />
      <${Minimap} map=${map} overlay=${overlay} bounds=${bounds} screen=${screen} active=${active} onGo=${(/** @type {number} */ token) => scrollTo(box.current, pieces, tops, token)} />`}
    ${tokens.error && html`<${Failed} error=${tokens.error} what="Tokens could not be read." again=${() => tokens.again()} />`}
    ${tokens.withoutText && overlay.stream !== null && html`<p class="notext warn small">No token texts: ${tokens.withoutText} The ids stand in their place.</p>`}
    <div class="ts" ref=${box} tabindex="-1" role="region" aria-label="Transcript" onKeyDown=${key} onPointerOver=${over} onPointerLeave=${() => pinned.current || told(active)} onClick=${click}>
      <div style=${{ height: `${tops[range[0]] ?? 0}px` }} aria-hidden="true"></div>
      ${pieces.slice(range[0], range[1]).map((piece) => html`<${Piece} key=${piece.key} piece=${piece} message=${messages[piece.message]} tokens=${tokens} paint=${paint} version=${version} measure=${measure} path=${path} trace=${index} quotes=${quotes} tools=${piece.message === 0 ? trace.tools : null} live=${data.live === true} />`)}
      <div style=${{ height: `${Math.max(0, (tops[pieces.length] ?? 0) - (tops[Math.min(range[1], pieces.length)] ?? 0))}px` }} aria-hidden="true"></div>
      ${pieces.length === 0 && html`<p class="state dim">No message yet.</p>`}
    </div>`;
}

/** All messages in the order they were written have no tokens in a row: overlays are of a branch. */
const ALL = Object.fromEntries(OVERLAYS.flatMap(({ stream }) => (stream === null ? [] : [[stream, "Choose a branch: tokens have an order within one."]])));

/** @param {EventTarget | null} target */
function positionOf(target) {
  const text = /** @type {HTMLElement | null} */ (target)?.closest?.("[data-p]")?.getAttribute("data-p");
  return text === null || text === undefined ? null : Number(text);
}

/** The token that Tab goes to: the chosen one, or the first that is drawn. @param {number | null} active @param {readonly import("./chunks.js").Piece[]} pieces @param {[number, number]} range */
function tabStop(active, pieces, range) {
  const drawn = pieces.slice(range[0], range[1]).filter(({ first, last }) => last > first);
  if (active !== null && drawn.some(({ first, last }) => active >= first && active < last)) return active;
  return drawn[0]?.first ?? null;
}

/** Scroll so that a token's part of the branch is on the screen. @param {HTMLElement | null} box @param {readonly import("./chunks.js").Piece[]} pieces @param {Float64Array} tops @param {number} token */
function scrollTo(box, pieces, tops, token) {
  const index = pieceOfToken(pieces, token);
  if (!box || index < 0) return;
  const { from, to } = pieces[index];
  const share = to > from ? (token - from) / (to - from) : 0;
  box.scrollTop = tops[index] + share * (tops[index + 1] - tops[index]) - box.clientHeight / 2;
}

/** @param {HTMLElement} box @param {Element} target */
function reveal(box, target) {
  const [outer, inner] = [box.getBoundingClientRect(), target.getBoundingClientRect()];
  if (inner.top < outer.top + 24 || inner.bottom > outer.bottom - 24) box.scrollTop += inner.top - outer.top - box.clientHeight / 3;
}

/** The messages of a trace: those of the first answer, and of long traces the others page by page. @param {string} path @param {number} index @param {any} trace @param {boolean} live @returns {import("./transcript.js").Node[]} */
function useNodes(path, index, trace, live) {
  const [more, setMore] = useState(/** @type {any[]} */ ([]));
  const known = trace.nodes.length + more.length;
  useEffect(() => {
    if (live || known >= trace.nodes_total) return undefined;
    const stop = new AbortController();
    ask(address(`${path}/nodes`, { trace: index, start: known }), { signal: stop.signal }).then(
      (said) => said.nodes.length > 0 && setMore((last) => [...last, ...said.nodes]),
      () => {},
    );
    return () => stop.abort();
  }, [path, index, known, trace.nodes_total]);
  return useMemo(() => (more.length > 0 ? [...trace.nodes, ...more] : trace.nodes), [trace.nodes, more]);
}

/** Heights as pieces are drawn; `onChange` once a frame. @param {Heights} heights @param {() => void} onChange */
function useMeasured(heights, onChange) {
  const newest = useRef({ heights, onChange });
  newest.current = { heights, onChange };
  const keys = useMemo(() => new WeakMap(), []);
  const observer = useMemo(
    () =>
      new ResizeObserver((entries) => {
        let changed = false;
        for (const { target } of entries) changed = newest.current.heights.measure(keys.get(target), /** @type {HTMLElement} */ (target).offsetHeight) || changed;
        if (changed) newest.current.onChange();
      }),
    [],
  );
  useEffect(() => () => observer.disconnect(), []);
  return useMemo(
    () => (/** @type {Element} */ element, /** @type {string} */ key) => {
      keys.set(element, key);
      observer.observe(element);
      return () => observer.unobserve(element);
    },
    [],
  );
}
