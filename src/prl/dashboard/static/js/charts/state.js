/** What a page of charts shows, as its address says: axis, smoothing, log scale, zoom, compared runs, pinned cursor. */

import { useThrottled } from "../lib/hooks.js";
import { useNavigation } from "../lib/location.js";
import { usePulse } from "../lib/pulse.js";
import { useCallback, useEffect, useMemo, useRef, useState } from "../lib/ui.js";
import { Cursor } from "./cursor.js";
import { parseZoom, zoomText } from "./zoom.js";

export const AXES = Object.freeze([
  { value: "step", label: "Step" },
  { value: "time", label: "Time" },
  { value: "tokens", label: "Tokens" },
]);
export const USUAL_SMOOTHING = 0.8;
/** Runs beside the page's own. */
export const MOST_COMPARED = 5;
const PIN_MS = 300;
/** A page of charts is drawn anew at most this often, whatever the run does. */
const FRESH_MS = 4000;

/** @typedef {ReturnType<typeof useChartState>} ChartState */

export function useChartState() {
  const { place, go } = useNavigation();
  const axis = AXES.some(({ value }) => value === place.get("axis")) ? place.get("axis") : "step";
  const smooth = place.number("smooth");
  const zoomed = place.get("zoom");
  const set = useCallback((/** @type {import("../lib/place.js").Changes} */ changes) => go(place.with(changes), { replace: true }), [place, go]);
  return {
    axis,
    smoothing: smooth !== null && smooth >= 0 && smooth < 1 ? smooth : USUAL_SMOOTHING,
    log: place.flag("log"),
    zoom: useMemo(() => parseZoom(zoomed), [zoomed]),
    compare: place.all("compare").filter((id) => id !== place.run).slice(0, MOST_COMPARED),
    set,
    setAxis: (/** @type {string} */ value) => set({ axis: value === "step" ? null : value, zoom: null, at: null }),
    setSmoothing: (/** @type {number} */ value) => set({ smooth: value === USUAL_SMOOTHING ? null : value }),
    setZoom: (/** @type {import("./zoom.js").Zoom} */ zoom) => set({ zoom: zoomText(zoom, axis) }),
  };
}

/** The version of the run's metrics, at most every few seconds another one. @returns {string | null} */
export function useMetricsVersion() {
  return useThrottled(usePulse().run?.metrics ?? null, FRESH_MS);
}

/** The cursor of the page. Where it is pinned is in the address (`at`), a moment later. */
export function usePinnedCursor() {
  const { place, go } = useNavigation();
  const at = place.number("at");
  const [cursor] = useState(() => new Cursor());
  useEffect(() => cursor.pin(at), [cursor, at]);
  useEffect(() => {
    let timer = 0;
    const ends = cursor.listen(() => {
      window.clearTimeout(timer);
      timer = window.setTimeout(() => {
        if (cursor.pinned !== at) go(place.with({ at: cursor.pinned }), { replace: true });
      }, PIN_MS);
    });
    return () => {
      window.clearTimeout(timer);
      ends();
    };
  }, [cursor, place, go, at]);
  return cursor;
}

/**
 * What all charts share; the same object for as long as nothing of it changes.
 * @param {ChartState} state
 * @param {[number, number]} range
 * @param {import("./plot.js").Marks} marks
 * @param {{current: HTMLElement | null}} slider
 * @returns {import("./chart.js").Frame}
 */
export function useChartFrame(state, range, marks, slider) {
  const newest = useRef(state);
  newest.current = state;
  return useMemo(
    () => ({
      axis: state.axis,
      smoothing: state.smoothing,
      log: state.log,
      range,
      marks,
      onZoom: (from, to) => newest.current.setZoom([from, to]),
      onReset: () => newest.current.setZoom(null),
      onPick: () => slider.current?.focus({ preventScroll: true }),
    }),
    [state.axis, state.smoothing, state.log, range[0], range[1], marks],
  );
}
