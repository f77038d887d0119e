/** What somebody may mean who types a few letters. Pure. */

const MOST = 12;

/**
 * @param {string} text
 * @param {import("../lib/place.js").Place} here
 * @param {readonly {id: string, name: string}[]} runs
 * @param {readonly {producer: string, key: string}[]} series
 * @returns {{kind: string, label: string, place: import("../lib/place.js").Place}[]} the best first
 */
export function destinations(text, here, runs, series) {
  const wanted = text.toLowerCase();
  const fits = (/** @type {string} */ name) => name.toLowerCase().includes(wanted);
  const found = [
    ...(here.run === null ? [] : [...new Set(series.map(({ key }) => key).filter(fits))].sort((a, b) => a.length - b.length).slice(0, 6).map((key) => ({ kind: "Metric", label: key, place: here.to("metrics", { key }) }))),
    ...runs.filter(({ name }) => fits(name)).slice(0, 6).map(({ id, name }) => ({ kind: "Run", label: name, place: here.to("overview", { run: id }) })),
  ];
  // Anything may be the id of an episode: whether there is one, the viewer says.
  if (here.run !== null && /^[\w~.:-]{1,200}$/.test(text)) found.push({ kind: "Episode", label: text, place: here.to("traces", { episode: text }) });
  return found.slice(0, MOST);
}
