/** Where the viewer leads: back to its list, and to another episode. Pure. */

/** @typedef {import("../../lib/place.js").Place} Place */

/** The list that a viewer was opened from. The overlay stays, for the next episode. @param {Place} place */
export function listPlace(place) {
  return place.with({ episode: null, live: null, trace: null, branch: null, view: null, token: null, node: null, quote: null, marks: null, row: null, text: place.get("hit") || null, hit: null });
}

/** Another episode in the same viewer: what is of the one on the screen goes, overlay and view stay. @param {Place} place @param {string} ref @param {number | null} [row] */
export function episodePlace(place, ref, row = null) {
  return place.with({ episode: ref, sel: ref, row, live: null, trace: null, branch: null, token: null, node: null, quote: null, marks: null });
}
