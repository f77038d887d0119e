/** The whole branch in one strip, on the scale of the overlay, with what is on the screen. */

import { count } from "../../lib/format.js";
import { color } from "../../lib/theme.js";
import { html, useEffect, useRef, useState } from "../../lib/ui.js";
import { Failed } from "../../parts/states.js";
import { classOf, heightOf } from "./overlays.js";
import { useShared } from "./shared.js";

const HEIGHT = 34;

/**
 * @param {{map: import("../../lib/data.js").Data<any>, overlay: import("./overlays.js").Overlay, bounds: readonly number[], screen: import("./shared.js").Shared<{from: number, to: number}>, active: number | null, onGo: (token: number) => void}} properties
 */
export function Minimap({ map, overlay, bounds, screen, active, onGo }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [width, setWidth] = useState(0);
  const [theme, setTheme] = useState(0);
  const total = map.data?.total ?? 0;
  useEffect(() => {
    const element = /** @type {HTMLCanvasElement} */ (canvas.current);
    const sized = new ResizeObserver(() => setWidth(element.clientWidth));
    sized.observe(element);
    const changed = () => setTheme((last) => last + 1);
    window.addEventListener("themechange", changed);
    return () => {
      sized.disconnect();
      window.removeEventListener("themechange", changed);
    };
  }, []);
  useEffect(() => {
    if (canvas.current && width > 0) draw(canvas.current, width, map.data, overlay, bounds);
  }, [width, theme, map.data, overlay, bounds]);
  const at = (/** @type {PointerEvent} */ event) => {
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    onGo(Math.round(((event.clientX - box.left) / Math.max(1, box.width)) * total));
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    const { from, to } = screen.value;
    const page = Math.max(1, to - from);
    const middle = (from + to) / 2;
    const next = { ArrowLeft: middle - page / 4, ArrowRight: middle + page / 4, PageUp: middle - page, PageDown: middle + page, Home: 0, End: total - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    onGo(Math.round(Math.max(0, Math.min(total - 1, next))));
  };
  if (map.error) return html`<${Failed} error=${map.error} what="The map of the branch could not be read." again=${map.again} />`;
  return html`<div class="mw">
    <div class="mini" role="slider" tabindex="0" aria-label="${overlay.label} along the branch: arrows and page keys scroll" aria-valuemin="0" aria-valuemax=${Math.max(0, total - 1)} aria-valuenow=${Math.max(0, screen.value.from)} aria-valuetext="tokens ${count(screen.value.from)} to ${count(screen.value.to)} of ${count(total)}"
      onKeyDown=${key} onPointerDown=${(/** @type {PointerEvent} */ event) => (/** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId), at(event))} onPointerMove=${(/** @type {PointerEvent} */ event) => event.buttons === 1 && at(event)}>
      <${OnScreen} screen=${screen} total=${total} />
      <canvas ref=${canvas} aria-hidden="true"></canvas>
      ${active !== null && total > 0 && html`<span class="here" style=${{ left: `${(active / total) * 100}%` }} aria-hidden="true"></span>`}
    </div>
    <div class="row small faint tn mends"><span>Token 0</span><span class="grow"></span><span>shaded: on screen</span><span class="grow"></span><span>${count(total)}</span></div>
  </div>`;
}

/** @param {{screen: import("./shared.js").Shared<{from: number, to: number}>, total: number}} properties */
function OnScreen({ screen, total }) {
  const { from, to } = useShared(screen);
  if (total === 0) return null;
  return html`<span class="onscreen" aria-hidden="true" style=${{ left: `${(from / total) * 100}%`, width: `${Math.max(0.3, ((to - from) / total) * 100)}%` }}></span>`;
}

/** @param {HTMLCanvasElement} canvas @param {number} width @param {any} map @param {import("./overlays.js").Overlay} overlay @param {readonly number[]} bounds */
function draw(canvas, width, map, overlay, bounds) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = HEIGHT * ratio;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(ratio, ratio);
  const bins = /** @type {(number | null)[]} */ (map?.bins ?? []);
  if (bins.length === 0) return;
  /** @type {Map<string, string>} */
  const colours = new Map();
  const step = width / bins.length;
  bins.forEach((value, index) => {
    const name = classOf(overlay, bounds, value);
    if (name === "") return;
    if (!colours.has(name)) colours.set(name, color(`--${SHADES[name] ?? name}`));
    const tall = Math.max(1, heightOf(overlay, bounds, value) * (HEIGHT - 2));
    context.fillStyle = /** @type {string} */ (colours.get(name));
    context.fillRect(index * step, HEIGHT - tall, Math.max(1, step > 3 && overlay.form !== "mask" ? step - 1 : step + 0.3), tall);
  });
}

/** Bars have no text on them: the faintest classes are drawn in a stronger shade, so that they are seen. */
const SHADES = /** @type {Record<string, string>} */ ({ k0: "k4", k1: "k4", k2: "k4", k3: "k5", k4: "k5", e0: "e4", e1: "e4", e2: "e4", e3: "e5", e4: "e5", z0: "line-2", n1: "n3", p1: "p3", "m-in": "m-in-l", "m-hi": "m-hi-l", "m-lo": "m-lo-l", "m-un": "m-lo-l", "m-out": "line-2" });
