/** A long list of which pages are loaded when they are seen. Pure: who asks the server is told what to ask. */

export const PAGE = 128;

/** @template R */
export class PagedList {
  /** @param {number} [size] rows of a page */
  constructor(size = PAGE) {
    this.size = size;
    this.total = 0;
    /** @type {Map<number, readonly R[]>} */
    this.pages = new Map();
    /** @type {Set<number>} */
    this.asked = new Set();
  }

  /** The pages that hold rows first up to last and were not asked for yet; from now on they were. @param {number} first @param {number} last */
  missing(first, last) {
    const found = [];
    const end = Math.max(0, Math.min(last, this.total) - 1);
    for (let page = Math.floor(Math.max(0, first) / this.size); page <= Math.floor(end / this.size); page += 1) {
      if (!this.asked.has(page)) found.push(page);
    }
    for (const page of found) this.asked.add(page);
    return found;
  }

  /** @param {number} page @param {readonly R[]} rows @param {number} total */
  put(page, rows, total) {
    this.asked.add(page);
    this.pages.set(page, rows);
    this.total = total;
  }

  /** A page could not be had: it may be asked for again. @param {number} page */
  failed(page) {
    if (!this.pages.has(page)) this.asked.delete(page);
  }

  /** @param {number} index @returns {R | null} */
  at(index) {
    return this.pages.get(Math.floor(index / this.size))?.[index % this.size] ?? null;
  }

  /** All rows, null where they are not loaded. @returns {(R | null)[]} */
  rows() {
    /** @type {(R | null)[]} */
    const rows = new Array(this.total).fill(null);
    for (const [page, held] of this.pages) {
      for (let index = 0; index < held.length && page * this.size + index < this.total; index += 1) rows[page * this.size + index] = held[index];
    }
    return rows;
  }
}
