/** The token in the line below or above another, as they stand on the screen. */

/**
 * @param {HTMLElement} box
 * @param {HTMLElement} from
 * @param {1 | -1} by
 * @returns {number | null}
 */
export function aboveToken(box, from, by) {
  const spans = /** @type {HTMLElement[]} */ ([...box.querySelectorAll("[data-p]")]);
  const here = from.getClientRects()[0];
  if (!here) return null;
  let best = null;
  let line = null;
  let least = Infinity;
  for (let index = spans.indexOf(from) + by; index >= 0 && index < spans.length; index += by) {
    const there = spans[index].getClientRects()[0];
    if (!there || Math.abs(there.top - here.top) < 8) continue;
    if (line === null) line = there.top;
    else if (Math.abs(there.top - line) > 8) break;
    const away = Math.abs(there.left - here.left);
    if (away < least) [least, best] = [away, spans[index]];
  }
  return best === null ? null : Number(best.getAttribute("data-p"));
}
