/** Where a step's time goes, as one bar. */

import { duration, percent } from "../../lib/format.js";
import { html } from "../../lib/ui.js";
import { Waiting } from "../../parts/states.js";
import { capital } from "../../parts/facts.js";
import { boundBy, segments } from "./shares.js";

/** @typedef {import("./shares.js").Bottleneck} Bottleneck */

/** @param {{bottleneck: Bottleneck | null, waiting: boolean}} properties */
export function BottleneckBar({ bottleneck, waiting }) {
  if (waiting) return html`<section class="bn" aria-busy="true"><div class="row bt"><h2>Where a step's time goes</h2></div><div class="bnbar empty"></div><p class="leg"><${Waiting} width=${20} /></p></section>`;
  if (bottleneck === null) return html`<section class="bn"><div class="row bt"><h2>Where a step's time goes</h2><span class="dim">Not known yet: it takes three finished steps, and a judgement of the run.</span></div></section>`;
  const parts = segments(bottleneck);
  const bound = boundBy(bottleneck);
  const steps = `steps ${bottleneck.first_step} to ${bottleneck.last_step}`;
  return html`<section class="bn">
    <div class="row bt"><h2>Where a step's time goes</h2>
      <span class="dim tn">mean of ${steps}, ${duration(bottleneck.seconds)}. ${bound ? html`<b class="fg">${bound}</b>: ${bottleneck.why}` : `${capital(bottleneck.why)}.`}</span></div>
    <svg class="bnbar" viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label=${parts.map(({ cause, share }) => `${cause} ${percent(share)}`).join(", ")}>
      ${parts.map(({ cause, share, from, color }) => html`<rect key=${cause} class=${color} x=${from * 1000} y="0" width=${Math.max(0, share * 1000 - 2)} height="14"><title>${capital(cause)} ${percent(share)}</title></rect>`)}
    </svg>
    <ul class="leg tn">${parts.map(({ cause, share, seconds, color }) => html`<li key=${cause}><i class="sw ${color.replace("f", "b")}"></i>${capital(cause)} <b>${percent(share)}</b> <span class="faint">${duration(seconds)}</span></li>`)}</ul>
  </section>`;
}
