/** Series as charts come near: those that are wanted within a frame are asked for together. */

import { address, ask, runPath } from "../../lib/api.js";

/** Keys of one question: their names make the address, which has an end. */
const MOST_KEYS = 20;
const MOST_CHARACTERS = 4000;

/** @typedef {{series: import("../overview/merge.js").Line[], marks: import("../../charts/marks.js").Marks}} Answer */

export class SeriesLoader {
  /** @param {string} run @param {import("../../lib/place.js").Changes} parameters the axis, and which part of it */
  constructor(run, parameters) {
    this.run = run;
    this.parameters = parameters;
    /** @type {Map<string, {promise: Promise<Answer>, done: (answer: Answer) => void, failed: (error: Error) => void}>} */
    this.waiting = new Map();
    this.stop = new AbortController();
    this.timer = 0;
  }

  /**
   * The series of a key, whoever writes it. Rejects with ApiError, or when the loader was closed.
   * @param {string} key
   * @param {readonly string[]} producers
   * @returns {Promise<Answer>}
   */
  get(key, producers) {
    const names = producers.map((producer) => `${producer}:${key}`);
    return Promise.all(names.map((name) => this.#one(name))).then((answers) => ({ series: answers.flatMap(({ series }) => series), marks: answers[0].marks }));
  }

  /** Nothing that is still asked for is wanted any more. */
  close() {
    window.clearTimeout(this.timer);
    this.stop.abort();
  }

  /** @param {string} name @returns {Promise<Answer>} */
  #one(name) {
    const known = this.waiting.get(name);
    if (known) return known.promise;
    let done = (/** @type {Answer} */ _) => {};
    let failed = (/** @type {Error} */ _) => {};
    const promise = /** @type {Promise<Answer>} */ (new Promise((resolve, reject) => ([done, failed] = [resolve, reject])));
    this.waiting.set(name, { promise, done, failed });
    if (this.timer === 0) this.timer = window.setTimeout(() => this.#ask(), 0);
    return promise;
  }

  #ask() {
    this.timer = 0;
    const wanted = [...this.waiting];
    this.waiting.clear();
    while (wanted.length) {
      let characters = 0;
      let many = 0;
      while (many < Math.min(MOST_KEYS, wanted.length) && (many === 0 || characters + wanted[many][0].length < MOST_CHARACTERS)) characters += wanted[many++][0].length;
      void this.#askFor(wanted.splice(0, many));
    }
  }

  /** @param {[string, {done: (answer: Answer) => void, failed: (error: Error) => void}][]} wanted */
  async #askFor(wanted) {
    try {
      const url = address(runPath(this.run, "metrics", "series"), { ...this.parameters, key: wanted.map(([name]) => name), band: 1 });
      const answer = await ask(url, { signal: this.stop.signal });
      for (const [name, { done }] of wanted) done({ series: answer.series.filter((/** @type {any} */ one) => `${one.producer}:${one.key}` === name), marks: answer.marks });
    } catch (error) {
      wanted.forEach(([, { failed }]) => failed(/** @type {Error} */ (error)));
    }
  }
}
