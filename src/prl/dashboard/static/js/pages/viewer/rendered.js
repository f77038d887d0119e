/** The text as the model saw it, special tokens and all. */

import { runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { useNavigation } from "../../lib/location.js";
import { html, useMemo } from "../../lib/ui.js";
import { Copy } from "../../parts/controls.js";
import { Empty, Failed } from "../../parts/states.js";
import { blocks } from "./blocks.js";
import { visibleText } from "./visible.js";

const REASONS = /** @type {Record<string, string>} */ ({
  missing_token_ids: "The record holds no token ids of this branch: the writer did not keep them.",
  tokenizer_unavailable: "The tokens are recorded, but no tokenizer is at hand to read them with.",
  decode_error: "The tokenizer could not decode the recorded tokens.",
});

/** @param {{episode: string, trace: number, branch: number}} properties */
export function Rendered({ episode, trace, branch }) {
  const { place } = useNavigation();
  const { data, error, again } = useData(runPath(/** @type {string} */ (place.run), "episodes", episode, "rendered"), { trace, branch }, { keep: false });
  const parts = useMemo(() => (data?.text ? blocks(data.text) : []), [data]);
  if (error) return html`<${Failed} error=${error} what="The rendered text could not be read." again=${again} />`;
  if (!data) return html`<p class="state faint">Reading</p>`;
  if (data.text === null) return html`<${Empty}>${REASONS[data.status] ?? data.status}${data.reason ? ` ${data.reason}` : ""}</${Empty}>`;
  return html`<div class="ts" tabindex="0" role="region" aria-label="Rendered text">
    <div class="row rn"><span class="dim small">Decoded from the recorded token ids, special tokens kept${data.cut ? "; the end is cut" : ""}.</span><span class="grow"></span><${Copy} text=${data.text} /></div>
    <div class="rendered mono">${parts.map((part, index) => html`<div key=${index} class="block">${visibleText(part)}</div>`)}</div>
  </div>`;
}
