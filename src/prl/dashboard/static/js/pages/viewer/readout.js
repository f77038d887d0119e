/** All that is known of one token, together, in a place that does not move. */

import { count, number } from "../../lib/format.js";
import { html } from "../../lib/ui.js";
import { classOf, STABLE, valueText } from "./overlays.js";
import { useShared } from "./shared.js";
import { tokenName } from "./visible.js";

const STREAMS = ["mismatch_kl", "trainer_logprob", "inference_logprob", "reference_logprob", "entropy", "advantage", "stable", "loss_mask", "content_mask"];

/**
 * @typedef {object} Seen
 * @property {number} position
 * @property {number} total
 * @property {string} text
 * @property {number | null} id
 * @property {boolean} special
 * @property {Record<string, number | null>} values
 * @property {boolean} recomputed  whether the mismatch KL is not as recorded
 * @property {string} name  class of the token
 * @property {string} overlay
 * @property {number | null} policy  with which it was sampled
 * @property {boolean} sampled
 * @property {number | null} step  at which it was trained on
 * @property {boolean} pinned
 */

/**
 * @param {import("./tokens.js").Tokens} tokens
 * @param {number} position
 * @param {{overlay: import("./overlays.js").Overlay, bounds: readonly number[], messages: readonly import("./transcript.js").Message[], data: any, pinned: boolean}} with_
 * @returns {Seen | null} null while it is not loaded
 */
export function describe(tokens, position, { overlay, bounds, messages, data, pinned }) {
  const text = tokens.text(position);
  if (text === null) return null;
  const message = messages.filter(({ first }) => first >= 0 && first <= position).at(-1);
  return {
    position,
    total: tokens.total,
    text,
    id: tokens.id(position),
    special: tokens.special(position),
    values: Object.fromEntries(STREAMS.map((stream) => [stream, tokens.value(stream, position)])),
    recomputed: tokens.recomputed("mismatch_kl", position),
    name: classOf(overlay, bounds, tokens.value(overlay.stream ?? "", position)),
    overlay: overlay.id,
    policy: message?.node.call?.policy ?? null,
    sampled: message?.node.sampled === true,
    step: data.row.ship_step ?? data.step ?? null,
    pinned,
  };
}

/** @param {{seen: import("./shared.js").Shared<Seen | null>}} properties */
export function ReadOut({ seen }) {
  const token = useShared(seen);
  return html`<section class="ro" aria-live="polite" aria-label="Token">
    ${token === null
      ? html`<div class="row"><h2>Token</h2><span class="faint">none chosen</span></div>
          <p class="small dim">With an overlay, point at a token, or walk them by the arrow keys. Space pins one; <kbd>n</kbd> goes to the next that is marked.</p>`
      : html`<${Known} token=${token} />`}
  </section>`;
}

/** @param {{token: Seen}} properties */
function Known({ token }) {
  const { values } = token;
  const [trainer, inference] = [values.trainer_logprob, values.inference_logprob];
  const ratio = trainer === null || inference === null ? null : Math.exp(trainer - inference);
  const rows = [
    ["mismatch_kl", `Mismatch KL${token.recomputed ? ", recomputed" : ""}`, valueText("mismatch_kl", values.mismatch_kl)],
    ["trainer_logprob", "Trainer log-probability", valueText("trainer_logprob", trainer)],
    ["inference", "Inference log-probability", valueText("inference_logprob", inference)],
    ["ratio", "Ratio, trainer to inference", ratio === null ? "n/a" : number(ratio)],
    ["entropy", "Entropy", valueText("entropy", values.entropy)],
    ["advantage", "Advantage", valueText("advantage", values.advantage)],
    ...(values.reference_logprob === null ? [] : [["reference", "Reference log-probability", valueText("reference_logprob", values.reference_logprob)]]),
  ];
  return html`<div class="row"><h2>Token</h2><span class="tokn mono ${token.name}">${tokenName(token.text)}</span><span class="faint tn">id ${token.id ?? "n/a"}</span>${token.special && html`<span class="tag">special</span>`}${token.pinned && html`<span class="tag">pinned</span>`}
      <span class="grow"></span><span class="faint small tn nowrap" title="Position in the branch, from 0">${count(token.position)} of ${count(token.total)}</span></div>
    <dl>${rows.map(([id, label, value]) => html`<div key=${id}><dt>${label}</dt><dd class="tn ${id === token.overlay ? "strong" : ""} ${value === "n/a" ? "faint" : ""}">${value}</dd></div>`)}</dl>
    <div class="row mk">
      ${mask(values.loss_mask, "in the loss", "not in the loss")}
      ${values.stable !== null && values.stable !== 0 && html`<span class="mm ${STABLE[String(values.stable)]?.name ?? ""}">${STABLE[String(values.stable)]?.label ?? ""}</span>`}
      ${values.stable === 0 && html`<span class="mm faint">within the bound</span>`}
      ${values.content_mask !== null && html`<span class="mm faint">${values.content_mask ? "content" : "no content"}</span>`}
    </div>
    <p class="small dim">${sentence(token, ratio)}</p>`;
}

/** @param {number | null} value @param {string} yes @param {string} no */
function mask(value, yes, no) {
  return value === null ? null : html`<span class="mm ${value ? "m-in" : "faint"}">${value ? yes : no}</span>`;
}

/** @param {Seen} token @param {number | null} ratio */
function sentence(token, ratio) {
  const parts = [];
  if (!token.sampled) return "Not written by the model.";
  if (token.policy !== null) parts.push(`Sampled with policy ${token.policy}`);
  if (token.step !== null) parts.push(`${parts.length ? "trained" : "Trained"} at step ${token.step}`);
  const said = parts.length ? `${parts.join(", ")}. ` : "";
  if (ratio === null) return said || "Sampled.";
  if (ratio > 1.1) return `${said}The trainer finds this token ${times(ratio)} likelier.`;
  if (ratio < 1 / 1.1) return `${said}The trainer finds this token ${times(1 / ratio)} less likely.`;
  return `${said}Trainer and engine agree.`;
}

/** @param {number} factor */
const times = (factor) => `${factor >= 10 ? count(factor) : factor.toFixed(1)} times`;
