/** Where rollouts of one task part, as rows to draw. Pure. */

/**
 * @typedef {{rollouts: readonly number[], text: string, probability: number | null}} Way
 * @typedef {{token: number, turn: number, shared_text: string, ways: readonly Way[]}} Parting
 * @typedef {{index: number, way: number, colour: number, first: boolean, marked: string, rest: string, probability: number | null}} PartedRow
 */

/**
 * One row a rollout, those of one way together, the way with the best reward first. A rollout that is in no way (it has
 * no tokens) comes last, with way -1.
 * @param {Parting | null} parting
 * @param {readonly {row: {reward: number | null}, text_after?: string | null}[]} rollouts
 * @returns {PartedRow[]}
 */
export function partedRows(parting, rollouts) {
  if (parting === null) return rollouts.map(({ text_after }, index) => ({ index, way: -1, colour: 0, first: false, marked: "", rest: text_after ?? "", probability: null }));
  const reward = (/** @type {number} */ index) => rollouts[index]?.row.reward ?? -Infinity;
  const best = (/** @type {Way} */ way) => Math.max(-Infinity, ...way.rollouts.map(reward));
  const ways = parting.ways.map((way, index) => ({ way, index })).sort((a, b) => best(b.way) - best(a.way) || b.way.rollouts.length - a.way.rollouts.length || a.index - b.index);
  /** @type {PartedRow[]} */
  const rows = [];
  ways.forEach(({ way }, place) => {
    way.rollouts.filter((index) => index in rollouts).forEach((index, nth) => {
      const [marked, rest] = split(rollouts[index].text_after ?? way.text, way.text);
      rows.push({ index, way: place, colour: COLOURS[place % COLOURS.length], first: nth === 0, marked, rest, probability: way.probability });
    });
  });
  const placed = new Set(rows.map(({ index }) => index));
  rollouts.forEach(({ text_after }, index) => {
    if (!placed.has(index)) rows.push({ index, way: -1, colour: 0, first: true, marked: "", rest: text_after ?? "", probability: null });
  });
  return rows;
}

/** Colours of series, by way. */
const COLOURS = [1, 5, 2, 3, 4, 6];

/** The text after the parting as what its way begins with, and the rest. @param {string} text @param {string} way @returns {[string, string]} */
function split(text, way) {
  return way !== "" && text.startsWith(way) ? [way, text.slice(way.length)] : ["", text];
}

/**
 * Dots for a task at one step: solved ones first. More than `most` are told as a share.
 * @param {number} count
 * @param {number} solved
 * @param {number} [most]
 * @returns {boolean[]}
 */
export function dots(count, solved, most = 16) {
  const shown = Math.min(count, most);
  const full = count === 0 ? 0 : Math.round((solved / count) * shown);
  return Array.from({ length: shown }, (_, index) => index < full);
}

/** Two picked steps after one more was picked: picked again, it is put down; a third takes the place of the older. @param {readonly number[]} picked @param {number} step */
export function pickStep(picked, step) {
  if (picked.includes(step)) return picked.filter((one) => one !== step);
  return [...picked, step].slice(-2);
}
