/** One overview out of several: charts of the page's run with the lines of the runs it is compared with. Pure. */

import { shortNames } from "../../charts/labels.js";
import { isOn, sinceStart, startOf } from "../../charts/marks.js";
import { axisRange, withLooks } from "../../charts/model.js";

/**
 * @typedef {import("../../charts/model.js").Line & {axis?: string}} Line
 * @typedef {{id: string, title: string, unit: string, format: string, about: string, limit: {value: number, above: boolean} | null, from_zero: boolean, left_out?: number, lines: Line[]}} Chart
 * @typedef {{id: string, title: string, note: string, charts: Chart[]}} Section
 * @typedef {object} Overview  as the server sends it
 * @property {Section[]} sections
 * @property {string} axis
 * @property {import("../../charts/marks.js").Marks} marks
 * @property {import("./tiles.js").TileData[]} [tiles]
 * @property {import("./shares.js").Bottleneck | null} [bottleneck]
 * @property {{section: string, why: string}[]} [missing]
 * @property {string} [kind]
 * @property {boolean} [partial]
 */

/** All lines of an overview. @param {Overview} overview */
function allLines(overview) {
  return overview.sections.flatMap(({ charts }) => charts.flatMap(({ lines }) => lines));
}

/** The range of all charts that have the axis of the page. @param {readonly Section[]} sections @param {string} axis @returns {[number, number]} */
export function drawnRange(sections, axis) {
  const lines = sections.flatMap(({ charts }) => charts.flatMap((chart) => chart.lines));
  return axisRange(lines.filter((line) => isOn(line, axis)));
}

/** An overview whose x are seconds since the run's start; on other axes as it is. @param {Overview} overview @returns {Overview & {start: number | null}} */
export function elapsed(overview) {
  const start = overview.axis === "time" ? startOf(overview.marks, allLines(overview)) : null;
  if (start === null) return { ...overview, start };
  const shifted = (/** @type {Chart} */ chart) => ({ ...chart, lines: chart.lines.map((line) => sinceStart(line, start)) });
  return { ...overview, start, sections: overview.sections.map((section) => ({ ...section, charts: section.charts.map(shifted) })) };
}

/**
 * @param {{name: string, overview: Overview}[]} runs the page's own first
 * @returns {Section[]} the sections of the first
 */
export function merged(runs) {
  const compared = runs.length > 1;
  const names = shortNames(runs.map(({ name }) => name));
  const charts = runs.map(({ overview }) => new Map(overview.sections.flatMap((section) => section.charts.map((chart) => /** @type {const} */ ([`${section.id} ${chart.id}`, chart])))));
  return runs[0].overview.sections.map((section) => ({
    ...section,
    charts: section.charts.map((chart) => {
      const same = charts.map((of) => of.get(`${section.id} ${chart.id}`));
      const single = same.every((one) => (one?.lines.length ?? 0) <= 1);
      const lines = same.flatMap((one, run) =>
        withLooks(one?.lines ?? [], run, compared).map((line) => ({ ...line, label: !compared ? line.label : single ? names[run] : `${names[run]} ${line.label}` })),
      );
      // Bands of several runs over each other show none of them.
      return { ...chart, lines: compared ? lines.map((line) => ({ ...line, low: null, high: null })) : lines };
    }),
  }));
}
