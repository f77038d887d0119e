/** Tokens of a branch, held in windows that are loaded when they are needed. No DOM; who loads is handed in. */

import { cutNear, NEAR } from "./chunks.js";

const WINDOW = 4000;
/** Windows that are held at most: of the nine streams some 30 MB. */
const HELD = 40;

/**
 * @typedef {object} Window_
 * @property {number} start
 * @property {readonly (string | null)[]} texts
 * @property {readonly number[]} ids
 * @property {ReadonlySet<number>} special  positions within the branch
 * @property {Record<string, {values?: readonly (number | null)[], reason?: string, recomputed?: boolean}>} streams
 */

export class Tokens {
  /**
   * @param {number} total
   * @param {(start: number, limit: number) => Promise<any>} load an answer of the route of tokens
   * @param {() => void} onChange
   * @param {number} [size]
   */
  constructor(total, load, onChange, size = WINDOW) {
    this.total = total;
    this.load = load;
    this.onChange = onChange;
    this.size = size;
    /** @type {Map<number, Window_>} */
    this.held = new Map();
    /** @type {Set<number>} */
    this.loading = new Set();
    /** Windows that are shown and read again where they are needed. @type {Set<number>} */
    this.stale = new Set();
    /** @type {Error | null} */
    this.error = null;
    /** Why there are ids but no texts; "" when there are. */
    this.withoutText = "";
    this.version = 0;
    /** Cuts that will not change any more. @type {Map<number, number>} */
    this.cuts = new Map();
  }

  /** Where to cut the branch near a place: behind a line, once what is around is loaded. @param {number} nominal */
  cut(nominal) {
    const known = this.cuts.get(nominal);
    if (known !== undefined) return known;
    if (!this.has(nominal - NEAR, Math.min(this.total, nominal + NEAR))) return nominal;
    const found = cutNear(nominal, (position) => this.text(position)?.endsWith("\n") === true);
    this.cuts.set(nominal, found);
    return found;
  }

  /** Whether all tokens from first up to last are there; those that are not will be. @param {number} first @param {number} last */
  need(first, last) {
    let all = true;
    for (let start = Math.floor(Math.max(0, first) / this.size) * this.size; start < Math.min(last, this.total); start += this.size) {
      const held = this.held.has(start);
      all = all && held;
      // What could not be read is read again when somebody asks for it, not by itself.
      if ((!held || this.stale.has(start)) && !this.loading.has(start) && this.error === null) void this.fetch(start);
    }
    return all;
  }

  /** @param {number} first @param {number} last */
  has(first, last) {
    for (let start = Math.floor(Math.max(0, first) / this.size) * this.size; start < Math.min(last, this.total); start += this.size) if (!this.held.has(start)) return false;
    return true;
  }

  /** @param {number} start */
  async fetch(start) {
    this.loading.add(start);
    try {
      const answer = await this.load(start, this.size);
      this.stale.delete(start);
      this.held.set(start, { ...answer, special: new Set(answer.special) });
      if (this.held.size > HELD) this.held.delete(/** @type {number} */ (this.held.keys().next().value));
      this.withoutText = answer.tokenizer?.reason ?? "";
      this.error = null;
    } catch (error) {
      this.error = /** @type {Error} */ (error);
    }
    this.loading.delete(start);
    this.version += 1;
    this.onChange();
  }

  /** More became known of the tokens: what is held stays until it was read again. */
  renew() {
    this.stale = new Set(this.held.keys());
    this.again();
  }

  /** Ask again for what failed. */
  again() {
    this.error = null;
    this.version += 1;
    this.onChange();
  }

  /** @param {number} position */
  window(position) {
    return this.held.get(Math.floor(position / this.size) * this.size);
  }

  /** The text of a token as it is; its id where no tokenizer was found; null while it is not loaded. @param {number} position @returns {string | null} */
  text(position) {
    const held = this.window(position);
    if (!held) return null;
    const at = position - held.start;
    return held.texts?.[at] ?? `\u2329${held.ids[at]}\u232a`;
  }

  /** @param {number} position */
  id(position) {
    const held = this.window(position);
    return held ? (held.ids[position - held.start] ?? null) : null;
  }

  /** Whether a token is one that steers the model. @param {number} position */
  special(position) {
    return this.window(position)?.special.has(position) === true;
  }

  /** @param {string} stream @param {number} position @returns {number | null} */
  value(stream, position) {
    const held = this.window(position);
    return held?.streams[stream]?.values?.[position - held.start] ?? null;
  }

  /** @param {string} stream @param {number} position */
  recomputed(stream, position) {
    return this.window(position)?.streams[stream]?.recomputed === true;
  }
}
