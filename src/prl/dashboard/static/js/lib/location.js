/** The address bar as state: the place that is shown, and going to another one without loading the page anew. */

import { Place } from "./place.js";
import { createContext, useContext } from "./ui.js";

/**
 * @typedef {object} Navigation
 * @property {Place} place
 * @property {(place: Place, how?: {replace?: boolean}) => void} go  a new entry in the history, or in place of this one
 */

/** @type {import("../../vendor/preact.mjs").Context<Navigation>} */
export const NavigationContext = createContext(/** @type {any} */ (null));

/** The place that is shown, and how to leave it. @returns {Navigation} */
export function useNavigation() {
  return useContext(NavigationContext);
}

/** The place of the address bar. */
export function currentPlace() {
  return new Place(window.location.search);
}

/**
 * Put a place into the address bar. What changes many times a second (a cursor, a text that is typed) is put there when
 * it rests: browsers refuse more than about 100 entries in 30 s.
 * @param {Place} place
 * @param {boolean} replace
 */
export function writePlace(place, replace) {
  if (replace) window.history.replaceState(null, "", place.href);
  else window.history.pushState(null, "", place.href);
}
