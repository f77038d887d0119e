/** Walking from one marked token to the next. Pure. */

/**
 * The next marked position after `from`, or before it; it goes round. Null when none is marked.
 * @param {readonly number[]} marked in order
 * @param {number} from
 * @param {1 | -1} by
 */
export function nextMarked(marked, from, by) {
  if (marked.length === 0) return null;
  if (by > 0) return marked.find((position) => position > from) ?? marked[0];
  for (let index = marked.length - 1; index >= 0; index -= 1) if (marked[index] < from) return marked[index];
  return marked[marked.length - 1];
}
