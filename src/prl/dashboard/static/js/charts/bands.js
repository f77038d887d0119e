/** The area between a low and a high line, at most one pair of points a pixel. Pure. */

/**
 * @param {readonly number[]} x ascending
 * @param {readonly (number | null)[]} low
 * @param {readonly (number | null)[]} high
 * @param {(x: number) => number} toX pixels
 * @param {(y: number) => number} toY pixels
 * @returns {[number, number, number][][]} areas, each of (x, upper edge, lower edge) from left to right; a point
 *   without both values ends one
 */
export function bandAreas(x, low, high, toX, toY) {
  /** @type {[number, number, number][][]} */
  const areas = [];
  /** @type {[number, number, number][] | null} */
  let area = null;
  x.forEach((value, index) => {
    const [bottom, top] = [low[index], high[index]];
    if (bottom === null || top === null || bottom === undefined || top === undefined) {
      area = null;
      return;
    }
    const at = toX(value);
    const point = /** @type {[number, number, number]} */ ([at, toY(top), toY(bottom)]);
    if (area === null) areas.push((area = [point]));
    else {
      const last = area[area.length - 1];
      if (Math.floor(last[0]) === Math.floor(at)) {
        last[1] = Math.min(last[1], point[1]);
        last[2] = Math.max(last[2], point[2]);
      } else area.push(point);
    }
  });
  return areas;
}
