/** When the episodes arrived, with a brush that chooses a stretch of time; by pointer, or by arrow keys and Enter. */

import { count, moment } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html, useRef, useState } from "../../lib/ui.js";
import { bars, binAt, binsOf, timeOf } from "./bins.js";

const WIDTH = 300;
const HEIGHT = 24;

/** @param {{histogram: any}} properties */
export function ArrivalHistogram({ histogram }) {
  const { place, go } = useNavigation();
  const [brush, setBrush] = useState(/** @type {[number, number] | null} */ (null));
  const from = useRef(/** @type {number | null} */ (null));
  const known = histogram !== null && histogram.counts?.length > 0 && histogram.start !== null;
  if (!known) return html`<span class="hist"><svg width=${WIDTH} height=${HEIGHT} aria-hidden="true"><path class="g" d="M0 ${HEIGHT - 0.5}H${WIDTH}" /></svg></span>`;
  const set = binsOf(histogram, place.number("since"), place.number("until"));
  const shown = brush ? /** @type {[number, number]} */ ([Math.min(...brush), Math.max(...brush)]) : set;
  const choose = (/** @type {[number, number] | null} */ bins) => {
    setBrush(null);
    go(place.with({ ...(bins === null ? { since: null, until: null } : timeOf(histogram, bins[0], bins[1])), sel: null }), { replace: true });
  };
  const at = (/** @type {PointerEvent} */ event) => binAt(histogram, event.clientX - /** @type {Element} */ (event.currentTarget).getBoundingClientRect().left, WIDTH);
  const down = (/** @type {PointerEvent} */ event) => {
    if (event.button !== 0) return;
    /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId);
    from.current = at(event);
    setBrush([from.current, from.current]);
  };
  const move = (/** @type {PointerEvent} */ event) => from.current !== null && setBrush([from.current, at(event)]);
  const up = (/** @type {PointerEvent} */ event) => {
    if (from.current === null) return;
    const bins = /** @type {[number, number]} */ ([from.current, at(event)]);
    from.current = null;
    choose(bins);
  };
  const last = histogram.counts.length - 1;
  const key = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const [a, b] = brush ?? set ?? [last, last];
    if (by !== undefined) {
      const next = Math.max(0, Math.min(last, b + by));
      setBrush([event.shiftKey ? a : next, next]);
    } else if (event.key === "Enter" && brush) choose(/** @type {[number, number]} */ ([Math.min(...brush), Math.max(...brush)]));
    else if (event.key === "Escape" && (brush || set)) choose(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const { since, until } = shown ? timeOf(histogram, shown[0], shown[1]) : timeOf(histogram, 0, last);
  const inside = histogram.counts.slice(shown?.[0] ?? 0, (shown?.[1] ?? last) + 1).reduce((/** @type {number} */ sum, /** @type {number} */ one) => sum + one, 0);
  const said = `${count(inside)} episodes from ${moment(since)} to ${moment(until)}`;
  return html`<span class="hist" title=${`${said}. Drag to choose a time, double click for all.`}>
    <svg width=${WIDTH} height=${HEIGHT} viewBox="0 0 ${WIDTH} ${HEIGHT}" tabindex="0" role="slider" aria-label="Time of arrival: arrows move, with Shift they extend, Enter chooses, Escape shows all"
      aria-valuemin="0" aria-valuemax=${last} aria-valuenow=${shown?.[1] ?? last} aria-valuetext=${said}
      onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onDblClick=${() => choose(null)} onKeyDown=${key}>
      <rect class="hit" width=${WIDTH} height=${HEIGHT} />
      ${bars(histogram, WIDTH, HEIGHT, shown).map(
        (bar) => html`<rect key=${bar.bin} class=${bar.chosen && shown ? "bar on" : "bar"} x=${bar.x} y=${bar.y} width=${bar.width} height=${bar.height} />${bar.errors > 0.5 && html`<rect class="err" x=${bar.x} y=${HEIGHT - bar.errors} width=${bar.width} height=${bar.errors} />`}`,
      )}
    </svg>
  </span>`;
}
