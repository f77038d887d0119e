/** The list of lines: only those on the screen are drawn; it stays at the end while it is there. */

import { clock, count, duration, moment, plural } from "../../lib/format.js";
import { useScrollBox } from "../../lib/hooks.js";
import { useNavigation } from "../../lib/location.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../lib/ui.js";
import { Icon } from "../../parts/icons.js";
import { Link } from "../../parts/link.js";
import { Empty, Failed } from "../../parts/states.js";
import { rolloutsAround } from "./chosen.js";
import { holds, marked, offsetsOf, rowAt, rowsOf } from "./lines.js";

/** @typedef {import("./lines.js").Row} Row */

const SPARE = 600;
const NEAR = 400;
const LEVELS = /** @type {Record<string, {icon: "warn" | "bad", tone: string} | undefined>} */ ({
  WARNING: { icon: "warn", tone: "warn" },
  ERROR: { icon: "bad", tone: "bad" },
  CRITICAL: { icon: "bad", tone: "bad" },
});

/**
 * @param {object} properties
 * @param {string} properties.label
 * @param {ReturnType<typeof import("./feed.js").useFeed>} properties.feed
 * @param {readonly import("./lines.js").Incident[]} properties.incidents
 * @param {Map<string, number>} properties.colors series number of each component
 * @param {RegExp | null} properties.pattern
 * @param {{file: string, offset: number} | null} properties.chosen the place that the address names
 * @param {(entry: import("./lines.js").Entry) => void} properties.onChoose
 * @param {(from: number | null, to: number | null) => void} [properties.onSeen] times of the first and last line on the screen
 * @param {any} properties.empty
 * @param {boolean} [properties.narrow] without the component's name
 */
export function LogLines({ label, feed, incidents, colors, pattern, chosen, onChoose, onSeen, empty, narrow = false }) {
  const { ref, height, top } = useScrollBox();
  const [unfolded, setUnfolded] = useState(/** @type {ReadonlySet<string>} */ (new Set()));
  const rows = useMemo(() => rowsOf(feed.entries, unfolded, incidents), [feed.entries, unfolded, incidents]);
  const offsets = useMemo(() => offsetsOf(rows), [rows]);
  const total = offsets[rows.length];
  const first = rowAt(offsets, Math.max(0, top - SPARE));
  const last = rows.length ? rowAt(offsets, top + (height || 800) + SPARE) + 1 : 0;
  useScrollPlace(ref, feed, rows, offsets, chosen);

  useEffect(() => {
    if (feed.loading || height === 0) return;
    // A page may be short, or empty, because the server looks for a while only: the cursor then is another one.
    if (top < NEAR) feed.loadOlder();
    if (total - top - height < NEAR) feed.loadNewer();
  }, [top, height, total, feed.loading, feed.older, feed.newer]);
  useEffect(() => {
    if (!onSeen || rows.length === 0) return;
    onSeen(timeFrom(rows, rowAt(offsets, top), 1), timeFrom(rows, rowAt(offsets, top + height), -1));
  }, [top, height, rows]);

  const [active, setActive] = useState(-1);
  const stop = active >= first && active < last ? active : rows.findIndex((row, index) => index >= rowAt(offsets, top) && row.kind === "entry");
  const key = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    let next = (active < 0 ? stop : active) + step;
    while (rows[next] && rows[next].kind !== "entry") next += step;
    if (!rows[next]) return;
    setActive(next);
    const box = /** @type {HTMLElement} */ (ref.current);
    if (offsets[next] < box.scrollTop) box.scrollTop = offsets[next];
    else if (offsets[next + 1] > box.scrollTop + box.clientHeight) box.scrollTop = offsets[next + 1] - box.clientHeight;
    window.requestAnimationFrame(() => /** @type {HTMLElement | null} */ (box.querySelector(`[data-row="${next}"]`))?.focus({ preventScroll: true }));
  };
  const toggle = (/** @type {string} */ name) => setUnfolded((last) => (last.has(name) ? new Set([...last].filter((one) => one !== name)) : new Set([...last, name])));

  const nothing = feed.error && rows.length === 0 ? html`<${Failed} error=${feed.error} what="The logs could not be read." again=${feed.again} />` : !feed.loading && rows.length === 0 ? html`<${Empty}>${feed.older === null ? empty : "Looking further back."}</${Empty}>` : null;
  return html`<div class="log-list ${narrow ? "narrow" : ""}" ref=${ref} aria-busy=${String(feed.loading)}>
    ${nothing ??
    html`<ol aria-label=${label} onKeyDown=${key} style=${{ height: `${total}px`, paddingTop: `${offsets[first] ?? 0}px` }}>
      ${rows.slice(first, last).map((row, index) =>
        row.kind === "entry"
          ? html`<${Line} key=${row.key} row=${row} at=${first + index} tab=${first + index === stop ? 0 : -1} color=${colors.get(row.entry.component) ?? 0} pattern=${pattern} chosen=${chosen !== null && holds(row.entry, chosen)} onChoose=${onChoose} onToggle=${toggle} narrow=${narrow} />`
          : row.kind === "incident"
            ? html`<li key=${row.key} class="incident"><span class="badge bad"><${Icon} name="bad" />Incident starts here</span><span class="clip" title=${row.incident.text}>${row.incident.text}</span><${IncidentLinks} incident=${row.incident} /></li>`
            : html`<li key=${row.key} class="day">${moment(row.time).slice(0, 10)}</li>`,
      )}
    </ol>`}
  </div>`;
}

/**
 * Where the list is scrolled to: at its end as long as it was there, at the line that was asked for, and where it was
 * when older lines came in above.
 * @param {{current: HTMLElement | null}} ref
 * @param {{entries: readonly any[], atEnd: boolean, anchor: number | null, round: number}} feed
 * @param {readonly Row[]} rows
 * @param {Float64Array} offsets
 * @param {{file: string, offset: number} | null} chosen
 */
function useScrollPlace(ref, feed, rows, offsets, chosen) {
  const before = useRef({ round: -1, first: "", total: 0, pinned: true });
  useLayoutEffect(() => {
    const box = ref.current;
    if (!box) return;
    const was = before.current;
    const total = offsets[rows.length];
    if (feed.round !== was.round) {
      const wanted = chosen ?? (feed.anchor === null ? null : (feed.entries[feed.anchor] ?? null));
      const index = wanted === null ? -1 : rows.findIndex((row) => row.kind === "entry" && holds(row.entry, wanted));
      box.scrollTop = index >= 0 ? Math.max(0, offsets[index] - box.clientHeight / 3) : feed.atEnd ? total : box.scrollTop;
    } else if (was.pinned && feed.atEnd) box.scrollTop = total;
    else if (was.first && rows[0]?.key !== was.first) {
      const index = rows.findIndex((row) => row.key === was.first);
      if (index > 0) box.scrollTop += offsets[index];
    }
    before.current = { ...before.current, round: feed.round, first: rows[0]?.key ?? "", total };
  }, [rows, feed.round]);
  useEffect(() => {
    const box = ref.current;
    if (!box) return undefined;
    const look = () => (before.current.pinned = box.scrollTop + box.clientHeight >= box.scrollHeight - 4);
    box.addEventListener("scroll", look, { passive: true });
    return () => box.removeEventListener("scroll", look);
  }, []);
}

/** The time of the nearest entry that has one. @param {readonly Row[]} rows @param {number} index @param {number} step */
function timeFrom(rows, index, step) {
  for (let at = index; rows[at]; at += step) {
    const row = rows[at];
    if (row.kind === "entry" && row.entry.time !== null) return row.entry.time;
  }
  return null;
}

/** Where an incident leads: to what the verdict says of it, and to the rollouts that arrived then. @param {{incident: import("./lines.js").Incident}} properties */
function IncidentLinks({ incident: { time } }) {
  const { place } = useNavigation();
  return html`<${Link} to=${place.with({ health: "findings" })}>Findings</${Link}>
    ${time !== null && html`<${Link} class="nowrap" to=${rolloutsAround(place, time)}>Rollouts of that time</${Link}>`}`;
}

/** What the button that folds says. @param {import("./lines.js").EntryRow} row */
function foldWords({ entry, hidden, open }) {
  const rest = hidden > 0 ? plural(hidden, "more line") : "";
  const what = entry.exception === null ? (open ? "Less" : rest) : "Traceback";
  return html`${what}<span class="faint">${open ? hidden > 0 && `${rest} before these` : entry.exception !== null && rest}</span>`;
}

/**
 * @param {{row: import("./lines.js").EntryRow, at: number, tab: number, color: number, pattern: RegExp | null, chosen: boolean, narrow: boolean,
 *   onChoose: (entry: import("./lines.js").Entry) => void, onToggle: (key: string) => void}} properties
 */
function Line({ row, at, tab, color, pattern, chosen, onChoose, onToggle, narrow }) {
  const { entry } = row;
  const level = LEVELS[entry.level];
  const time = entry.time === null ? "" : clock(entry.time);
  return html`<li class="line ${chosen ? "chosen" : ""} ${row.echo ? "echo" : ""}" data-row=${at} tabindex=${tab} aria-current=${chosen ? "true" : undefined}
    style=${{ height: `${row.height}px` }} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && event.target === event.currentTarget && onChoose(entry)}>
    <time class="tn" title=${entry.time === null ? "No time is known" : `${moment(entry.time)}${entry.exact ? "" : ", by the lines around it"}`}>${entry.exact || !time ? time : `~${time}`}</time>
    ${!narrow && html`<span class="co clip" title=${entry.file}><i class="sw b${color}"></i>${entry.component.replace(/^envs\/(train|eval)\//, "")}${entry.rank === null ? "" : ` ${entry.rank}`}</span>`}
    <span class="lv ${level?.tone ?? ""}">${level && html`<${Icon} name=${level.icon} size=${12} />`}${entry.level.toLowerCase()}</span>
    <button type="button" class="tx" tabindex="-1" title=${`${entry.file}, byte ${count(entry.offset)}. Click: put this line into the address`} onClick=${() => onChoose(entry)}>${marked(entry.message, pattern).map(([text, hit]) => (hit ? html`<mark>${text}</mark>` : text))}${entry.count > 1 && html`<span class="rep">${`\u00d7 ${count(entry.count)}`}${entry.last_time !== null && entry.time !== null && entry.last_time > entry.time ? ` over ${duration(entry.last_time - entry.time)}` : ""}</span>`}</button>
    ${entry.more_total > 0 &&
    html`<div class="more">
      <button type="button" class="fold" tabindex="-1" aria-expanded=${String(row.open)} onClick=${() => onToggle(row.key)}>
        <${Icon} name=${row.open ? "down" : "right"} size=${12} />${foldWords(row)}
      </button>
      ${row.detail.map((text, index) => html`<div class="dl clip ${entry.exception !== null && index === row.detail.length - 1 ? "bad" : ""}" key=${index}>${marked(text, pattern).map(([part, hit]) => (hit ? html`<mark>${part}</mark>` : part))}</div>`)}
    </div>`}
  </li>`;
}
