/** The reports page. */

import { html } from "../../lib/ui.js";

export default function Page() {
  return html`<p class="state">reports</p>`;
}
