/** Where the cursor stands, in words: one tab stop for all charts. Arrow keys move it, Enter opens the step's rollouts. */

import { count, duration, moment } from "../lib/format.js";
import { useKeys } from "../lib/keys.js";
import { useNavigation } from "../lib/location.js";
import { html, useContext } from "../lib/ui.js";
import { Link } from "../parts/link.js";
import { CursorContext, useCursorAt } from "./cursor.js";
import { stepWords } from "./marks.js";
import { short } from "./scales.js";

/**
 * @param {{axis: string, range: [number, number], marks: import("./marks.js").Marks | null, start: number | null, slider: {current: HTMLElement | null}, hint: boolean}} properties
 */
export function Readout({ axis, range, marks, start, slider, hint }) {
  const { place, go } = useNavigation();
  const cursor = useContext(CursorContext);
  const at = useCursorAt();
  const [low, high] = range;
  const pin = (/** @type {number | null} */ x) => {
    // The keys lead now, wherever the pointer rests.
    cursor.hover(null);
    cursor.pin(x);
  };
  const move = (/** @type {number} */ by) => {
    pin(Math.min(high, Math.max(low, (cursor.at ?? high) + by)));
    // Enter, Home and End are the cursor's from here on.
    slider.current?.focus({ preventScroll: true });
  };
  const one = axis === "step" ? 1 : (high - low) / 200;
  const rollouts = axis === "step" && at !== null ? place.to("traces", { step: at }) : null;
  useKeys([
    { keys: "ArrowLeft", about: "Move the cursor of the charts back", run: () => move(-one) },
    { keys: "ArrowRight", about: "Move the cursor of the charts on", run: () => move(one) },
    { keys: "[", about: "Ten steps back", run: () => move(-10 * one) },
    { keys: "]", about: "Ten steps on", run: () => move(10 * one) },
  ]);
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Home") pin(low);
    else if (event.key === "End") pin(high);
    else if (event.key === "Escape") pin(null);
    else if (event.key === "Enter" && rollouts) go(rollouts);
    else return;
    event.preventDefault();
  };
  return html`<div class="readout tn">
    <b class="slider" role="slider" tabindex="0" ref=${slider} aria-label="Cursor of all charts" aria-valuemin=${low} aria-valuemax=${high} aria-valuenow=${at ?? high} aria-valuetext=${words(at, axis, start)} onKeyDown=${key}>${words(at, axis, start)}</b>
    <span class="dim hide-s">${about(at, axis, start, marks)}</span>
    ${rollouts ? html`<${Link} to=${rollouts}>Rollouts of step ${count(at)}</${Link}>` : hint && html`<span class="dim hide-m"><kbd>${"\u2190"}</kbd> <kbd>${"\u2192"}</kbd> move, <kbd>Enter</kbd> rollouts, drag to zoom all</span>`}
  </div>`;
}

/** @param {number | null} at @param {string} axis @param {number | null} start */
function words(at, axis, start) {
  if (at === null) return "Newest";
  if (axis === "step") return `Step ${count(at)}`;
  if (axis === "tokens") return `${short(at)} tokens`;
  return start === null ? duration(at) : `After ${duration(at)}`;
}

/** @param {number | null} at @param {string} axis @param {number | null} start @param {import("./marks.js").Marks | null} marks */
function about(at, axis, start, marks) {
  if (at === null) return "";
  if (axis === "time") return start === null ? "" : moment(start + at);
  return axis === "step" ? stepWords(marks, at) : "";
}
