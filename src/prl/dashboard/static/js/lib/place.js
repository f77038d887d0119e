/**
 * A place: a page with everything that it shows, as the query of the address. Pure.
 *
 * `?page=traces&run=demo~1a2b3c4d&env=math&step=3..9`. Names are the pages' own; `page` and `run` belong to the frame.
 */

const PAGES = Object.freeze(["runs", "overview", "metrics", "traces", "logs", "configs", "reports"]);

/** Parameters that stay when the page changes. */
const LASTING = Object.freeze(["run", "theme"]);

/** @typedef {string | number | boolean | null | undefined | readonly (string | number)[]} Value */
/** @typedef {Record<string, Value>} Changes */

export class Place {
  /** @param {string} search the query of an address, with or without its question mark */
  constructor(search) {
    this.query = new URLSearchParams(search);
  }

  /** The page's name; "runs" for one that does not exist, "overview" for a run without one. */
  get page() {
    const page = this.query.get("page") ?? "";
    if (PAGES.includes(page)) return page;
    return this.run === null ? "runs" : "overview";
  }

  /** The run's id, or null. */
  get run() {
    return this.query.get("run") || null;
  }

  /**
   * A parameter, or what stands for it when it is absent.
   * @param {string} name
   * @param {string} [absent]
   */
  get(name, absent = "") {
    return this.query.get(name) ?? absent;
  }

  /** @param {string} name */
  all(name) {
    return this.query.getAll(name);
  }

  /**
   * A parameter as a number; null when it is absent or none.
   * @param {string} name
   */
  number(name) {
    const text = this.query.get(name);
    const value = text === null || text.trim() === "" ? NaN : Number(text);
    return Number.isFinite(value) ? value : null;
  }

  /** @param {string} name */
  flag(name) {
    return ["1", "true"].includes(this.get(name));
  }

  /**
   * This place with other values. Null, undefined, false and "" take a parameter away.
   * @param {Changes} changes
   */
  with(changes) {
    const next = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(changes)) {
      next.delete(name);
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== null && one !== undefined && one !== false && one !== "") next.append(name, String(one));
      }
    }
    return new Place(next.toString());
  }

  /**
   * Another page of the same run, with nothing of this page's state but what lasts.
   * @param {string} page
   * @param {Changes} [changes]
   */
  to(page, changes = {}) {
    const kept = Object.fromEntries(LASTING.map((name) => [name, this.query.get(name)]));
    return new Place("").with({ page, ...kept, ...changes });
  }

  /** The relative address of this place: "?..." */
  get href() {
    return `?${this.query}`;
  }
}
