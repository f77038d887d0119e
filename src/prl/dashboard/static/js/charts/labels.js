/** Labels at the ends of lines: none covers another. Pure. */

/**
 * Where labels go that want to stand at `wanted`: as near as their order and their height allow, all between `low` and
 * `high`. Labels that collide stand as one block around the mean of what they want.
 * @param {readonly number[]} wanted centres, pixels from the top
 * @param {number} height of a label
 * @param {number} low @param {number} high
 * @returns {number[]} centres, in the order of `wanted`
 */
export function placeLabels(wanted, height, low, high) {
  const order = wanted.map((_, index) => index).sort((a, b) => wanted[a] - wanted[b]);
  /** @type {{members: number[], sum: number, top: number}[]} */
  const blocks = [];
  const settle = (/** @type {{members: number[], sum: number, top: number}} */ block) => {
    const size = block.members.length * height;
    block.top = Math.max(low, Math.min(high - size, block.sum / block.members.length - size / 2));
  };
  for (const index of order) {
    let block = { members: [index], sum: wanted[index], top: 0 };
    settle(block);
    for (let last = blocks.at(-1); last && last.top + last.members.length * height > block.top; last = blocks.at(-1)) {
      blocks.pop();
      block = { members: [...last.members, ...block.members], sum: last.sum + block.sum, top: 0 };
      settle(block);
    }
    blocks.push(block);
  }
  const placed = new Array(wanted.length).fill(0);
  for (const { members, top } of blocks) members.forEach((index, place) => (placed[index] = top + (place + 0.5) * height));
  return placed;
}

/**
 * What tells names apart: without the words they all begin with. "mixed-r6", "mixed-r7" are "r6", "r7".
 * @param {readonly string[]} names
 */
export function shortNames(names) {
  if (names.length < 2 || new Set(names).size < names.length) return [...names];
  const words = names.map((name) => name.split(/(?<=[-_/. ])/));
  let common = 0;
  while (words.every((parts) => parts.length > common + 1 && parts[common] === words[0][common])) common += 1;
  return words.map((parts) => parts.slice(common).join(""));
}
