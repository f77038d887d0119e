/** Which overlay: one that the trace lacks can be reached, and says why it is not there. */

import { useNavigation } from "../../lib/location.js";
import { html } from "../../lib/ui.js";
import { OVERLAYS } from "./overlays.js";

/** Reasons of the server, in a sentence. */
const REASONS = /** @type {Record<string, string>} */ ({
  "no tokens": "The record holds no token ids.",
  "no sampled tokens": "No token of this trace was sampled.",
  "no trainer stream": "The trainer has written nothing about this trace: it was not trained on, or not yet.",
  "not covered": "What the trainer wrote does not cover these tokens.",
  "not shipped": "This episode went into no batch.",
  "not recorded": "The run did not record it.",
  "all-zero advantage": "All advantages of this trace are zero: its group had equal rewards.",
});

/** @param {string} reason */
const sentenceOf = (reason) => REASONS[reason] ?? reason;

/** @param {{overlay: import("./overlays.js").Overlay, unavailable: Record<string, string>}} properties */
export function Overlays({ overlay, unavailable }) {
  const { place, go } = useNavigation();
  return html`<div class="vh2 ovs"><div class="seg" role="group" aria-label="Token overlay">
    ${OVERLAYS.map((option) => {
      const lacking = option.stream !== null && option.stream in unavailable ? sentenceOf(unavailable[option.stream]) : null;
      return html`<button type="button" key=${option.id} aria-pressed=${String(option.id === overlay.id)} aria-disabled=${lacking ? "true" : undefined} title=${lacking ?? undefined}
        onClick=${() => lacking || go(place.with({ overlay: option.id }), { replace: true })}>${option.label}${lacking && html`<span class="vh">, not available: ${lacking}</span>`}</button>`;
    })}
  </div></div>`;
}
