/** The numbers at the head of an overview. */

import { short } from "../../charts/scales.js";
import { Spark } from "../../charts/spark.js";
import { change, fixed, formatted, percent } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html } from "../../lib/ui.js";
import { Icon } from "../../parts/icons.js";
import { Link, placeOf } from "../../parts/link.js";
import { Waiting } from "../../parts/states.js";

/** @typedef {{id: string, label: string, value: number | null, unit: string, format: string, change: number | null, change_label: string, note?: string, beyond_limit?: boolean, spark: (number | null)[], link: {page: string, params: Record<string, string>} | null}} TileData */

const USUAL = 8;

/** @param {{tiles: readonly TileData[] | null}} properties */
export function Tiles({ tiles }) {
  if (tiles === null) return html`<div class="tiles-box"><div class="tiles" aria-busy="true">${Array.from({ length: USUAL }, (_, index) => html`<div class="tile" key=${index}><div class="k"><${Waiting} width=${7} /></div><div class="v"><${Waiting} width=${3} /></div><div class="d">${"\u00a0"}</div></div>`)}</div></div>`;
  return html`<div class="tiles-box"><ul class="tiles" aria-label="Summary">${tiles.map((tile) => html`<${Tile} key=${tile.id} tile=${tile} />`)}</ul></div>`;
}

/** @param {{tile: TileData}} properties */
function Tile({ tile }) {
  const { place } = useNavigation();
  const [value, unit] = parts(tile);
  const [below = "\u00a0", ...more] = changeWords(tile);
  return html`<li class="tile">
    <div class="k clip" title=${tile.label}>${tile.link ? html`<${Link} to=${placeOf(place, tile.link)}>${tile.label}</${Link}>` : tile.label}</div>
    <div class="v ${tile.value === null ? "none" : ""}">${value}${unit && html` <small>${unit}</small>`}${tile.beyond_limit && html`<span class="warn" title="Beyond the limit of the alarm"><${Icon} name="warn" /><span class="vh">beyond the limit</span></span>`}</div>
    <${Spark} values=${tile.spark} />
    <div class="d clip" title=${[below, ...more].join(", ")}>${below}</div>
  </li>`;
}

/** A value and its unit, which is smaller. @param {TileData} tile */
function parts({ value, format }) {
  if (value !== null && ["count", "tokens"].includes(format) && value >= 1e6) return [short(value), ""];
  const text = formatted(value, format);
  const [number, ...unit] = text.split(" ");
  return ["seconds", "bytes"].includes(format) && unit.length === 1 ? [number, unit[0]] : [text, ""];
}

/** What is said below a value, the shown part first. @param {TileData} tile @returns {string[]} */
function changeWords({ value: now, change: by, change_label: since, note, format }) {
  const points = (/** @type {number} */ value) => percent(value).replace("%", " points");
  // Beside a value of three decimals a change has as many.
  const plain = (/** @type {number} */ value) => (format === "number" && now !== null && Math.abs(now) >= 0.1 && Math.abs(now) < 10 ? fixed(value, 3) : formatted(value, format));
  const changed = by === null ? "" : change(by, format === "percent" ? points : plain);
  const words = [[changed, since].filter(Boolean).join(" "), note ?? ""].filter(Boolean);
  // Of a time, what is usual says more than how it changed.
  return format === "seconds" ? words.reverse() : words;
}
