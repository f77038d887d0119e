/** A range of the x axis in the address: "120..180". Pure. */

/** @typedef {[number, number] | null} Zoom  null: everything */

/** @param {string} text @returns {Zoom} */
export function parseZoom(text) {
  const [from, to, ...more] = text.split("..");
  if (to === undefined || more.length || from.trim() === "" || to.trim() === "") return null;
  const zoom = /** @type {[number, number]} */ ([Number(from), Number(to)]);
  return Number.isFinite(zoom[0]) && Number.isFinite(zoom[1]) && zoom[0] < zoom[1] ? zoom : null;
}

/** @param {Zoom} zoom @param {string} axis */
export function zoomText(zoom, axis) {
  if (zoom === null) return "";
  const round = (/** @type {number} */ value) => (axis === "step" || axis === "tokens" ? Math.round(value) : Number(value.toFixed(1)));
  const [from, to] = [round(zoom[0]), round(zoom[1])];
  return from < to ? `${from}..${to}` : "";
}
