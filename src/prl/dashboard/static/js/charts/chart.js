/** A chart with its heading: title, unit, values at the cursor, and a label at the end of each line. */

import { formatted } from "../lib/format.js";
import { html, useContext, useLayoutEffect, useMemo, useRef, useState } from "../lib/ui.js";
import { Icon } from "../parts/icons.js";
import { Link } from "../parts/link.js";
import { Cursor, CursorContext } from "./cursor.js";
import { placeLabels } from "./labels.js";
import { isOn, sinceStart } from "./marks.js";
import { modelOf, rangeOf, reading } from "./model.js";
import { useNear } from "./near.js";
import { ABOVE, BELOW, Plot } from "./plot.js";

const LABEL = 16;
/** Pixels for the labels at the ends of lines, within the share of the chart that they may take. */
const GUTTER = { least: 96, most: 150, share: 0.34 };
const WORDS = /** @type {Record<string, string>} */ ({ nan: "NaN", inf: "Inf", "-inf": "\u2212Inf", dropped: "left out" });

/**
 * @typedef {object} Frame  what all charts of a page share
 * @property {string} axis
 * @property {number} smoothing
 * @property {boolean} log
 * @property {[number, number]} range
 * @property {import("./plot.js").Marks} marks
 * @property {(from: number, to: number) => void} onZoom
 * @property {() => void} onReset
 * @property {() => void} onPick  after the cursor was pinned
 */

/**
 * @param {object} properties
 * @param {string} properties.title
 * @param {import("../lib/place.js").Place | null} [properties.to]  where the title leads
 * @param {string} [properties.unit]
 * @param {string} [properties.about]
 * @param {string} [properties.format]
 * @param {readonly import("./model.js").Line[] | null} properties.lines  null: not there yet
 * @param {{value: number, above: boolean} | null} [properties.limit]
 * @param {boolean} [properties.fromZero]
 * @param {Frame} properties.frame
 * @param {number} [properties.height]
 * @param {any} [properties.empty]  what to say without lines
 * @param {boolean} [properties.mono]  the title is a key
 * @param {boolean} [properties.ends]  a label at its end for a single line too, in place of the value in the heading
 * @param {boolean} [properties.eager]  drawn when there is time, also when it is far off the screen
 */
export function Chart(properties) {
  const { lines, frame } = properties;
  const placed = useMemo(() => (lines === null || lines.every((line) => isOn(line, frame.axis)) ? lines : lines.filter((line) => isOn(line, frame.axis))), [lines, frame.axis]);
  const apart = placed?.length === 0 && lines !== null && lines.length > 0;
  if (!apart) return html`<${Figure} ...${properties} lines=${placed} />`;
  return html`<${Apart} ...${properties} />`;
}

/** A chart whose lines have no place on the page's axis: on their own, with a cursor of its own. @param {any} properties */
function Apart(properties) {
  const [cursor] = useState(() => new Cursor());
  const { lines, frame } = properties;
  const own = useMemo(() => {
    const start = lines[0].axis === "time" ? (rangeOf(lines)?.[0] ?? 0) : 0;
    const moved = lines.map((/** @type {import("./model.js").Line} */ line) => sinceStart(line, start));
    return { lines: moved, frame: { ...frame, axis: lines[0].axis, range: rangeOf(moved) ?? [0, 1], marks: { attempts: [], checkpoints: [] }, onZoom: () => {}, onReset: () => {}, onPick: () => {} } };
  }, [lines, frame]);
  return html`<${CursorContext.Provider} value=${cursor}><${Figure} ...${properties} ...${own} /></${CursorContext.Provider}>`;
}

/** @param {Parameters<typeof Chart>[0]} properties */
function Figure({ title, to = null, unit = "", about = "", format = "number", lines, limit = null, fromZero = false, frame, height = 132, empty = "No values yet", mono = false, eager = false, ends = false }) {
  const figure = useRef(/** @type {HTMLElement | null} */ (null));
  const near = useNear(figure, eager);
  const none = lines !== null && lines.every(({ x }) => x.length === 0);
  const labelled = (lines?.length ?? 0) > (ends ? 0 : 1);
  const one = lines?.length === 1 && !ends ? lines[0] : null;
  return html`<figure class="chart ${labelled ? "labelled" : ""}" ref=${figure}>
    <header>
      <span class="t clip ${mono ? "mono" : ""}" title=${about || title}>${to ? html`<${Link} to=${to}>${title}</${Link}>` : title}</span>
      <span class="u clip">${(format === "seconds" && unit === "s") || unit === title.toLowerCase() ? "" : unit}</span>
      ${one && !none && html`<${Value} line=${one} frame=${frame} format=${format} />`}
    </header>
    <div class="plot" style=${{ height: `${height}px` }}>
      ${none && html`<p class="faint small no-data">${empty}</p>`}
      ${lines !== null && !none && near && html`<${Canvas} title=${title} format=${format} lines=${lines} limit=${limit} fromZero=${fromZero} frame=${frame} height=${height} labelled=${labelled} />`}
    </div>
  </figure>`;
}

/** A value beside its chart's unit, which says "a second" already. @param {number | null} value @param {string} format */
function valueText(value, format) {
  return formatted(value, format === "rate" ? "number" : format);
}

/** The value of the only line, at the cursor or the newest. @param {{line: import("./model.js").Line, frame: Frame, format: string}} properties */
function Value({ line, frame, format }) {
  const cursor = useContext(CursorContext);
  const text = useRef(/** @type {HTMLElement | null} */ (null));
  const [word, setWord] = useState(/** @type {string | null} */ (null));
  const drawn = useMemo(() => modelOf([line], { ...frame, format, fromZero: false, limit: null, width: 100, height: 100, log: false }).lines[0], [line, frame.smoothing]);
  useLayoutEffect(() => {
    const tell = (/** @type {number | null} */ at) => {
      const said = reading(drawn, at, false);
      setWord(said.word);
      if (text.current) text.current.textContent = said.word === null ? valueText(said.value, format) : WORDS[said.word];
    };
    tell(cursor.at);
    return cursor.listen(tell);
  }, [drawn, format, cursor]);
  return html`<span class="r ${word === null ? "" : "bad"}">${word !== null && html`<${Icon} name="bad" size=${14} />`}<span ref=${text}></span></span>`;
}

/**
 * @param {{title: string, format: string, lines: readonly import("./model.js").Line[], limit: {value: number, above: boolean} | null, fromZero: boolean, frame: Frame, height: number, labelled: boolean}} properties
 */
function Canvas({ title, format, lines, limit, fromZero, frame, height, labelled }) {
  const host = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {Plot | null} */ (null));
  const width = useWidth(host);
  const newest = useRef(frame);
  newest.current = frame;
  const cursor = useContext(CursorContext);
  const gutter = labelled ? Math.round(Math.min(GUTTER.most, Math.max(GUTTER.least, width * GUTTER.share))) : 0;
  const wide = Math.max(0, width - gutter);
  const model = useMemo(
    () => (wide > 80 ? modelOf(lines, { ...frame, format, fromZero, limit, width: wide - 44, height: height - ABOVE - BELOW }) : null),
    [lines, frame.smoothing, frame.log, frame.axis, frame.range[0], frame.range[1], format, fromZero, limit, wide, height],
  );
  useLayoutEffect(() => {
    const snapped = (/** @type {number} */ x) => plot.current?.snap(x) ?? x;
    plot.current = new Plot(/** @type {HTMLElement} */ (host.current), {
      onHover: (x) => cursor.hover(x === null ? null : newest.current.axis === "step" ? Math.round(x) : snapped(x)),
      onPick: (x) => (cursor.pin(newest.current.axis === "step" ? Math.round(x) : snapped(x)), newest.current.onPick()),
      onZoom: (from, to) => newest.current.onZoom(from, to),
      onReset: () => newest.current.onReset(),
    });
    const recolor = () => plot.current?.recolor();
    window.addEventListener("themechange", recolor);
    return () => {
      window.removeEventListener("themechange", recolor);
      plot.current?.destroy();
    };
  }, [cursor]);
  useLayoutEffect(() => {
    if (model) plot.current?.show(model, frame.marks, wide, height);
  }, [model, frame.marks, wide, height]);
  useLayoutEffect(() => {
    if (model === null) return undefined;
    const point = (/** @type {number | null} */ at) => {
      const readings = model.lines.map((drawn) => ({ ...reading(drawn, at, model.log), color: drawn.line.color }));
      plot.current?.point(at, readings);
    };
    point(cursor.at);
    return cursor.listen(point);
  }, [model, frame.marks, cursor]);
  return html`<div class="canvas" ref=${host} role="img" aria-label=${spoken(title, format, model)}></div>
    ${labelled && model !== null && html`<${EndLabels} model=${model} width=${gutter - 6} format=${format} height=${height} />`}`;
}

/** @param {string} title @param {string} format @param {import("./model.js").Model | null} model */
function spoken(title, format, model) {
  if (model === null) return title;
  const newest = model.lines.slice(0, 6).map((drawn) => `${model.lines.length > 1 ? `${drawn.line.label} ` : ""}${valueText(reading(drawn, null, model.log).value, format)}`);
  const broken = model.lines.reduce((sum, { line }) => sum + (line.nonfinite?.length ?? 0), 0);
  return `${title}: ${newest.join(", ")}${broken ? `; ${broken} not finite` : ""}`;
}

/** @param {{model: import("./model.js").Model, width: number, format: string, height: number}} properties */
function EndLabels({ model, width, format, height }) {
  const cursor = useContext(CursorContext);
  const list = useRef(/** @type {HTMLUListElement | null} */ (null));
  const room = Math.floor((height - BELOW + ABOVE) / LABEL);
  const shown = model.lines.length > room ? room - 1 : model.lines.length;
  useLayoutEffect(() => {
    const items = /** @type {HTMLElement[]} */ ([...(list.current?.children ?? [])]);
    const { min, max } = model.yScale;
    const wanted = model.lines.slice(0, shown).map((drawn) => {
      const share = ((reading(drawn, null, model.log).place ?? min) - min) / (max - min);
      return ABOVE + (1 - Math.min(1, Math.max(0, share))) * (height - ABOVE - BELOW);
    });
    if (items.length > shown) wanted.push(height - BELOW);
    placeLabels(wanted, LABEL, 0, height - BELOW + ABOVE).forEach((top, index) => (items[index].style.transform = `translateY(${Math.round(top - LABEL / 2)}px)`));
    const tell = (/** @type {number | null} */ at) => {
      model.lines.slice(0, shown).forEach((drawn, index) => {
        const { value, word } = reading(drawn, at, model.log);
        const text = /** @type {HTMLElement} */ (items[index].querySelector("b"));
        text.textContent = word === null ? valueText(value, format) : WORDS[word];
        text.classList.toggle("bad", word !== null);
      });
    };
    tell(cursor.at);
    return cursor.listen(tell);
  }, [model, cursor, format, height, shown]);
  return html`<ul class="ends" ref=${list} style=${{ width: `${width}px` }}>
    ${model.lines.slice(0, shown).map(({ line }) => html`<li key=${`${line.label} ${line.producer}`} class="line-${line.color ?? 1}" title=${`${line.label}: ${line.producer}:${line.key}`}><span class="clip">${line.label}</span> <b class="tn"></b></li>`)}
    ${shown < model.lines.length && html`<li class="faint" title=${model.lines.slice(shown).map(({ line }) => line.label).join(", ")}>and ${model.lines.length - shown} more</li>`}
  </ul>`;
}

/** The width of an element's parent, as it changes. @param {{current: HTMLElement | null}} ref */
function useWidth(ref) {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const box = ref.current?.parentElement;
    if (!box) return undefined;
    setWidth(box.clientWidth);
    const observer = new ResizeObserver(() => setWidth(box.clientWidth));
    observer.observe(box);
    return () => observer.disconnect();
  }, []);
  return width;
}
