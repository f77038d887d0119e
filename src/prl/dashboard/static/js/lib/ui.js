/** What pages draw with: preact, its hooks, and htm bound to it. The one place that knows where the libraries lie. */

import htm from "../../vendor/htm.mjs";
import { h } from "../../vendor/preact.mjs";

export { createContext, Fragment, h, render } from "../../vendor/preact.mjs";
export {
  useCallback,
  useContext,
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "../../vendor/hooks.mjs";

/** Tagged template for elements: html`<p class="dim">${text}</p>`. Text is always a text node. */
export const html = htm.bind(h);

/** @typedef {import("../../vendor/preact.mjs").ComponentChildren} Children */
/** @typedef {import("../../vendor/preact.mjs").VNode<any>} Node */
