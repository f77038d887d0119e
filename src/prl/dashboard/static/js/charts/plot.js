/** A chart's canvas: lines by uPlot; bands, marks and the cursor by hand. Knows nothing of pages or components. */

import uPlot from "../../vendor/uplot.mjs";
import { bandAreas } from "./bands.js";
import { DASHES, lineColor, palette } from "./look.js";
import { nearest } from "./points.js";

/** Pixels above and below what is plotted; the axis of x is below. */
export const ABOVE = 8;
export const BELOW = 24;
/** Pixels on the right, and of half a character of a tick that stands at the very end. */
const RIGHT = 6;
const HALF_CHARACTER = 3.7;
const FEW_POINTS = 40;
const CROSS = 3.5;
const TRIANGLES_APART = 9;

/**
 * @typedef {object} Marks  places on the x axis
 * @property {number[]} attempts
 * @property {number[]} checkpoints
 */

/**
 * @typedef {object} Handlers
 * @property {(x: number | null) => void} onHover
 * @property {(x: number) => void} onPick  a click
 * @property {(from: number, to: number) => void} onZoom
 * @property {() => void} onReset
 */

export class Plot {
  /**
   * @param {HTMLElement} host
   * @param {Handlers} handlers
   */
  constructor(host, handlers) {
    this.host = host;
    this.handlers = handlers;
    /** @type {import("../../vendor/uplot.mjs").default | null} */
    this.u = null;
    this.shape = "";
    /** @type {import("./model.js").Model | null} */
    this.model = null;
    /** @type {Marks} */
    this.marks = { attempts: [], checkpoints: [] };
    this.colors = palette();
    this.line = Object.assign(document.createElement("div"), { className: "cursor-line" });
    /** @type {HTMLElement[]} */
    this.dots = [];
    /** @type {{at: number | null, readings: {x: number | null, place: number | null, color?: number}[]}} */
    this.pointed = { at: null, readings: [] };
  }

  /**
   * Draw a model. The canvas is made anew only when lines come or go.
   * @param {import("./model.js").Model} model
   * @param {Marks} marks
   * @param {number} width @param {number} height
   */
  show(model, marks, width, height) {
    [this.model, this.marks] = [model, marks];
    const left = Math.max(38, 12 + 6.6 * Math.max(...model.yScale.ticks.map((tick) => model.yScale.text(tick).length)));
    const shape = JSON.stringify([left, model.lines.map(({ line, raw, main }) => [line.color, line.dash, line.old, raw !== null, isFew(line, main)])]);
    const data = /** @type {any} */ ([model.x, ...model.columns]);
    if (this.u !== null && shape === this.shape) {
      if (this.u.width !== width || this.u.height !== height) this.u.setSize({ width, height });
      this.u.setData(data);
    } else {
      this.destroy();
      this.shape = shape;
      this.u = new uPlot(this.#options(width, height, left), data, this.host);
      this.u.over.append(this.line);
      this.line.hidden = true;
      this.u.over.addEventListener("click", this.#picked);
    }
  }

  /** Colours of another theme. */
  recolor() {
    this.colors = palette();
    this.u?.redraw(false, false);
  }

  /**
   * Put the cursor at an x, with a dot on each value.
   * @param {number | null} at
   * @param {{x: number | null, place: number | null, color?: number}[]} readings
   */
  point(at, readings) {
    this.pointed = { at, readings };
    this.#place();
  }

  /** The cursor follows what is drawn: places are known only then. */
  #place() {
    const u = this.u;
    if (u === null || this.model === null || u.scales.x.min === undefined || u.scales.x.min === null) return;
    const { at, readings } = this.pointed;
    const { min, max } = this.model.xScale;
    const seen = at !== null && at >= min && at <= max;
    this.line.hidden = !seen;
    if (seen) this.line.style.transform = `translateX(${Math.round(u.valToPos(at, "x"))}px)`;
    readings.forEach(({ x, place, color }, index) => {
      const dot = (this.dots[index] ??= Object.assign(document.createElement("div"), { className: "cursor-dot" }));
      if (dot.parentElement !== u.over) u.over.append(dot);
      dot.hidden = !seen || x === null || place === null || x < min || x > max;
      if (dot.hidden) return;
      dot.className = `cursor-dot b${color ?? 1}`;
      dot.style.transform = `translate(${u.valToPos(/** @type {number} */ (x), "x")}px, ${u.valToPos(/** @type {number} */ (place), "y")}px)`;
    });
    this.dots.slice(readings.length).forEach((dot) => (dot.hidden = true));
  }

  destroy() {
    this.u?.destroy();
    this.u = null;
    this.dots = [];
  }

  /** Room for the half of the last tick that stands beyond the end. */
  #right() {
    const { min, max, ticks, text } = /** @type {import("./model.js").Model} */ (this.model).xScale;
    const last = ticks.at(-1);
    if (last === undefined) return RIGHT;
    const half = text(last).length * HALF_CHARACTER;
    const beyond = ((max - last) / (max - min)) * (this.u?.width ?? 300);
    return Math.round(Math.max(RIGHT, half - beyond + 2));
  }

  #picked = () => {
    const left = this.u?.cursor.left ?? -1;
    if (this.u && left >= 0) this.handlers.onPick(this.u.posToVal(left, "x"));
  };

  /** @param {number} width @param {number} height @param {number} left @returns {import("../../vendor/uplot.mjs").default.Options} */
  #options(width, height, left) {
    const model = () => /** @type {import("./model.js").Model} */ (this.model);
    const font = `12px ${this.colors.sans}`;
    const stroke = () => this.colors.axis;
    const series = model().lines.flatMap((drawn) => (drawn.raw === null ? [this.#series(drawn, false)] : [this.#series(drawn, true), this.#series(drawn, false)]));
    return {
      width,
      height,
      padding: [ABOVE, () => this.#right(), 0, 0],
      legend: { show: false },
      cursor: {
        x: false,
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false, dist: 4 },
        bind: { dblclick: () => () => (this.handlers.onReset(), null) },
      },
      scales: { x: { time: false, range: () => [model().xScale.min, model().xScale.max] }, y: { range: () => [model().yScale.min, model().yScale.max] } },
      axes: [
        { font, stroke, size: BELOW, gap: 7, grid: { show: false }, ticks: { show: false }, border: { show: true, stroke: () => this.colors["line-2"], width: 1 }, splits: () => model().xScale.ticks, values: () => model().xScale.ticks.map(model().xScale.text) },
        { font, stroke, size: left, gap: 6, grid: { stroke: () => this.colors.grid, width: 1 }, ticks: { show: false }, splits: () => model().yScale.ticks, values: () => model().yScale.ticks.map(model().yScale.text) },
      ],
      series: [{}, ...series],
      hooks: {
        drawAxes: [(u) => this.#drawBands(u)],
        draw: [(u) => this.#drawMarks(u), () => this.#place()],
        setCursor: [(u) => this.handlers.onHover((u.cursor.left ?? -1) < 0 ? null : u.posToVal(/** @type {number} */ (u.cursor.left), "x"))],
        setSelect: [(u) => this.#selected(u)],
      },
    };
  }

  /** @param {import("./model.js").Drawn} drawn @param {boolean} ghost @returns {import("../../vendor/uplot.mjs").default.Series} */
  #series({ line, main }, ghost) {
    const few = !ghost && isFew(line, main);
    const faint = ghost || line.old === true;
    const stroke = () => lineColor(this.colors, line.color);
    return {
      stroke,
      width: faint ? 1 : 1.6,
      alpha: faint ? this.colors.ghost : 1,
      dash: ghost ? undefined : DASHES[line.dash ?? 0],
      cap: "round",
      points: { show: few, size: main.length === 1 ? 7 : 5, fill: stroke, width: 0 },
    };
  }

  /** @param {import("../../vendor/uplot.mjs").default} u */
  #selected(u) {
    if (u.select.width <= 0) return;
    const [from, to] = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.handlers.onZoom(from, to);
  }

  /** @param {import("../../vendor/uplot.mjs").default} u @param {(context: CanvasRenderingContext2D, ratio: number) => void} draw inside what is plotted */
  #clipped(u, draw) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    draw(ctx, uPlot.pxRatio);
    ctx.restore();
  }

  /** @param {import("../../vendor/uplot.mjs").default} u */
  #drawBands(u) {
    this.#clipped(u, (ctx) => {
      ctx.globalAlpha = this.colors.band;
      for (const { line, low, high } of this.model?.lines ?? []) {
        if (low === null || high === null) continue;
        ctx.fillStyle = lineColor(this.colors, line.color);
        for (const area of bandAreas(line.x, low, high, (x) => u.valToPos(x, "x", true), (y) => u.valToPos(y, "y", true))) {
          ctx.beginPath();
          for (const [x, top] of area) ctx.lineTo(x, top);
          for (const [x, , bottom] of [...area].reverse()) ctx.lineTo(x, bottom);
          ctx.fill();
        }
      }
    });
  }

  /** @param {import("../../vendor/uplot.mjs").default} u */
  #drawMarks(u) {
    const { top, height } = u.bbox;
    this.#clipped(u, (ctx, ratio) => {
      ctx.lineWidth = ratio;
      ctx.strokeStyle = this.colors["fg-3"];
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      for (const x of this.marks.attempts) stroked(ctx, [[Math.round(u.valToPos(x, "x", true)) + 0.5, top], [Math.round(u.valToPos(x, "x", true)) + 0.5, top + height]]);
      if (this.model?.limit !== null && this.model !== null) {
        const y = Math.round(u.valToPos(this.model.limit, "y", true)) + 0.5;
        ctx.strokeStyle = this.colors.warn;
        ctx.setLineDash([2 * ratio, 3 * ratio]);
        stroked(ctx, [[u.bbox.left, y], [u.bbox.left + u.bbox.width, y]]);
      }
    });
    this.#drawTriangles(u);
    this.#drawCrosses(u);
  }

  /** Checkpoints. @param {import("../../vendor/uplot.mjs").default} u */
  #drawTriangles(u) {
    const { ctx, bbox } = u;
    const ratio = uPlot.pxRatio;
    ctx.save();
    ctx.fillStyle = this.colors["fg-3"];
    const y = bbox.top + bbox.height;
    let last = -Infinity;
    for (const x of this.marks.checkpoints) {
      const at = u.valToPos(x, "x", true);
      if (at < bbox.left - 1 || at > bbox.left + bbox.width + 1 || at - last < TRIANGLES_APART * ratio) continue;
      last = at;
      ctx.beginPath();
      ctx.moveTo(at - 3 * ratio, y + 5 * ratio);
      ctx.lineTo(at + 3 * ratio, y + 5 * ratio);
      ctx.lineTo(at, y + ratio);
      ctx.fill();
    }
    ctx.restore();
  }

  /** Values that are not finite, at the top edge; those of one place once. @param {import("../../vendor/uplot.mjs").default} u */
  #drawCrosses(u) {
    const { ctx, bbox } = u;
    const size = CROSS * uPlot.pxRatio;
    ctx.save();
    ctx.strokeStyle = this.colors.bad;
    ctx.lineWidth = 1.8 * uPlot.pxRatio;
    for (const { line } of this.model?.lines ?? []) {
      let last = -Infinity;
      for (const [x] of line.nonfinite ?? []) {
        const at = u.valToPos(x, "x", true);
        if (at - last < size || at < bbox.left - 1 || at > bbox.left + bbox.width + 1) continue;
        last = at;
        const y = bbox.top + size;
        stroked(ctx, [[at - size, y - size], [at + size, y + size]]);
        stroked(ctx, [[at + size, y - size], [at - size, y + size]]);
      }
    }
    ctx.restore();
  }

  /** The x of a point near a place, so that the cursor stands on points. @param {number} x */
  snap(x) {
    const all = this.model?.x ?? [];
    const index = nearest(all, x);
    return index < 0 ? x : all[index];
  }
}

/** Whether a line has so few points that each is drawn, also those that were not sent. @param {import("./model.js").Line} line @param {readonly unknown[]} main */
function isFew(line, main) {
  return Math.max(line.total ?? 0, main.length) <= FEW_POINTS;
}

/** @param {CanvasRenderingContext2D} ctx @param {[number, number][]} points */
function stroked(ctx, points) {
  ctx.beginPath();
  for (const [x, y] of points) ctx.lineTo(x, y);
  ctx.stroke();
}
