/** Which rows of a long list to draw. Pure. */

/**
 * @param {number} count rows in all
 * @param {number} height of a row, CSS pixels
 * @param {number} top how far the list is scrolled
 * @param {number} view height of what is seen
 * @param {number} [spare] rows drawn beyond either edge
 * @returns {{first: number, last: number, before: number, after: number}} rows first up to last, and the pixels that
 *   stand for those before and after
 */
export function visibleRows(count, height, top, view, spare = 12) {
  const first = Math.min(Math.max(0, Math.floor(top / height) - spare), Math.max(0, count - 1));
  const last = Math.max(first, Math.min(count, Math.ceil((top + view) / height) + spare));
  return { first, last, before: first * height, after: Math.max(0, count - last) * height };
}
