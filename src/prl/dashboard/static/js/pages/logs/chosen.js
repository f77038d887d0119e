/** The line that the address names, whole: in the list a line has one row, however long it is. */

import { count, moment } from "../../lib/format.js";
import { useKeys } from "../../lib/keys.js";
import { useNavigation } from "../../lib/location.js";
import { html } from "../../lib/ui.js";
import { Copy } from "../../parts/controls.js";
import { Icon } from "../../parts/icons.js";
import { Link } from "../../parts/link.js";

/** Seconds around a line whose rollouts are of interest. */
const AROUND = 120;

/** The rollouts that arrived around a moment. @param {import("../../lib/place.js").Place} place @param {number} time */
export function rolloutsAround(place, time) {
  return place.to("traces", { since: Math.floor(time - AROUND), until: Math.ceil(time + AROUND) });
}

/** @param {{entry: import("./lines.js").Entry | null, onClose: (entry: import("./lines.js").Entry) => void}} properties */
export function ChosenLine({ entry, onClose }) {
  const { place } = useNavigation();
  useKeys(entry ? [{ keys: "Escape", about: "Leave the chosen line", run: () => onClose(entry), hidden: true }] : []);
  if (entry === null) return null;
  return html`<section class="chosen-line" aria-label="Chosen line">
    <header class="row"><span class="small faint clip">${entry.file}, byte ${count(entry.offset)}${entry.time === null ? "" : `, ${entry.exact ? "" : "about "}${moment(entry.time)}`}</span><span class="grow"></span>
      ${entry.time !== null && html`<${Link} class="nowrap" to=${rolloutsAround(place, entry.time)}>Rollouts of that time</${Link}>`}
      <${Copy} text=${[entry.message, ...entry.more].join("\n")} />
      <button type="button" class="btn quiet" aria-label="Leave the chosen line" title="Leave the chosen line" onClick=${() => onClose(entry)}><${Icon} name="close" size=${12} /></button></header>
    <pre class="mono" tabindex="0">${[entry.message, ...entry.more].join("\n")}</pre>
  </section>`;
}
