/** One key's chart, asked for when it comes near: its line in each run, a second producer's dashed. */

import { Chart } from "../../charts/chart.js";
import { startOf, sinceStart } from "../../charts/marks.js";
import { useNear } from "../../charts/near.js";
import { html, useEffect, useMemo, useRef, useState } from "../../lib/ui.js";

/**
 * @typedef {object} Source  where a run's series come from
 * @property {import("./loader.js").SeriesLoader} loader
 * @property {string} name  the run's, short
 */

/**
 * @param {object} properties
 * @param {import("./keys.js").Metric} properties.metric
 * @param {string} properties.title
 * @param {import("./meanings.js").Meaning | null} properties.meaning
 * @param {readonly Source[]} properties.sources  the page's run first
 * @param {import("../../charts/chart.js").Frame} properties.frame
 * @param {import("../../lib/place.js").Place | null} properties.to
 * @param {number} [properties.height]
 * @param {(range: [number, number], marks: import("../../charts/marks.js").Marks) => void} properties.onLoad
 */
export function MetricChart({ metric, title, meaning, sources, frame, to, height, onLoad }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const near = useNear(box, false);
  const { answers, error } = useAnswers(near, metric, sources, onLoad);
  const lines = useMemo(() => (answers === null ? null : linesOf(answers, sources, frame.axis)), [answers, sources, frame.axis]);
  const alarm = answers?.[0]?.marks.alarms?.find(({ key }) => key === metric.key) ?? null;
  const limit = useMemo(() => (alarm ? { value: alarm.limit, above: alarm.above } : null), [alarm?.limit, alarm?.above]);
  return html`<div class="metric" ref=${box}>
    <${Chart} mono title=${title} to=${to} unit=${meaning?.unit ?? ""} about=${meaning?.about ? `${metric.key}\n${meaning.about}` : metric.key} format=${meaning?.format ?? "number"} fromZero=${meaning?.from_zero ?? false}
      lines=${error ? [] : lines} limit=${limit} frame=${frame} height=${height} empty=${error?.message ?? (frame.log ? "Nothing above zero to draw" : "No values here")} />
  </div>`;
}

/** @param {boolean} near @param {import("./keys.js").Metric} metric @param {readonly Source[]} sources @param {(range: [number, number], marks: import("../../charts/marks.js").Marks) => void} onLoad */
function useAnswers(near, metric, sources, onLoad) {
  const [state, setState] = useState(/** @type {{answers: (import("./loader.js").Answer | null)[] | null, error: Error | null}} */ ({ answers: null, error: null }));
  useEffect(() => {
    if (!near) return undefined;
    let wanted = true;
    const [own, ...others] = sources.map(({ loader }) => loader.get(metric.key, metric.producers));
    // A run that lacks the key, or does not answer, costs the others nothing.
    Promise.all([own, ...others.map((other) => other.catch(() => null))]).then(
      (answers) => {
        if (!wanted) return;
        setState({ answers, error: null });
        const xs = /** @type {import("./loader.js").Answer} */ (answers[0]).series.filter(({ x }) => x.length).flatMap(({ x }) => [x[0], x[x.length - 1]]);
        if (xs.length) onLoad([Math.min(...xs), Math.max(...xs)], /** @type {import("./loader.js").Answer} */ (answers[0]).marks);
      },
      (error) => wanted && error.name !== "AbortError" && setState((last) => ({ answers: last.answers, error: last.answers ? null : error })),
    );
    return () => {
      wanted = false;
    };
  }, [near, sources, metric]);
  return state;
}

/** @param {(import("./loader.js").Answer | null)[]} answers @param {readonly Source[]} sources @param {string} axis */
function linesOf(answers, sources, axis) {
  const compared = sources.length > 1;
  return answers.flatMap((answer, run) => {
    if (answer === null) return [];
    const start = axis === "time" ? startOf(answer.marks, answer.series) : null;
    return answer.series.map((series, index) => {
      const line = start === null ? series : sinceStart(series, start);
      const label = compared ? (answer.series.length > 1 ? `${sources[run].name} ${series.producer}` : sources[run].name) : series.producer;
      const look = { label, color: ((compared ? run : index) % 6) + 1, dash: (compared && answer.series.length === 1 ? run : index) % 4 };
      return { ...line, ...look, ...(compared ? { low: null, high: null } : {}) };
    });
  });
}
