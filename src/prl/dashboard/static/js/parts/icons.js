/** Icons of 16 by 16 pixels, drawn with the colour of the text. Decoration: the word stands beside them. */

import { html } from "../lib/ui.js";

const PATHS = {
  ok: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Z M5 8.2l2.1 2.1L11 6.2",
  warn: "M8 2 15 14H1L8 2Z M8 6.5v3.5 M8 11.7v.6",
  bad: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Z M5.7 5.7l4.6 4.6 M10.3 5.7l-4.6 4.6",
  unknown: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Z M6.2 6.3a1.8 1.8 0 1 1 2.6 1.6c-.5.3-.8.6-.8 1.2 M8 11.2v.5",
  note: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Z M8 7.3v3.7 M8 4.7v.6",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9Z M10.3 10.3 14 14",
  down: "M4 6.2 8 10l4-3.8",
  right: "M6.2 4 10 8l-3.8 4",
  left: "M9.8 4 6 8l3.8 4",
  up: "M4 9.8 8 6l4 3.8",
  close: "M4 4l8 8 M12 4l-8 8",
  live: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11Z M8 6a2 2 0 1 1 0 4 2 2 0 0 1 0-4Z",
  system: "M2 3h12v8H2z M6 14h4",
  light: "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6Z M8 1.2v1.6 M8 13.2v1.6 M1.2 8h1.6 M13.2 8h1.6 M3.2 3.2l1.1 1.1 M11.7 11.7l1.1 1.1 M12.8 3.2l-1.1 1.1 M4.3 11.7l-1.1 1.1",
  dark: "M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1Z",
  copy: "M5.5 5.5h8v8h-8z M10.5 5.5v-3h-8v8h3",
  tool: "M9.5 3.2a3.5 3.5 0 0 0-4.3 4.5L2 11v3h3l3.3-3.2a3.5 3.5 0 0 0 4.5-4.3l-2.2 2.2-2.3-.6-.6-2.3 1.8-2.6Z",
  link: "M6.5 9.5l3-3 M7 4.5 8.5 3A3.2 3.2 0 0 1 13 7.5L11.5 9 M9 11.5 7.5 13A3.2 3.2 0 0 1 3 8.5L4.5 7",
  download: "M8 2v8 M4.8 7 8 10.2 11.2 7 M2.5 13.5h11",
};

/** @param {{name: keyof typeof PATHS, size?: number}} properties */
export function Icon({ name, size = 16 }) {
  return html`<svg class="icon" width=${size} height=${size} viewBox="0 0 16 16" fill="none" stroke="currentColor"
    stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} />
  </svg>`;
}
