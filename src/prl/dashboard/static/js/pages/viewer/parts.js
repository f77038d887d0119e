/** The parts of a message: text, reasoning folded, tools with their results under the call. */

import { address, ask } from "../../lib/api.js";
import { count, plural } from "../../lib/format.js";
import { html, useState } from "../../lib/ui.js";
import { Copy } from "../../parts/controls.js";
import { Icon } from "../../parts/icons.js";
import { blocks } from "./blocks.js";
import { cutAt, findQuote } from "./quotes.js";
import { prettyArguments } from "./transcript.js";
import { oneLine, visibleText } from "./visible.js";

/** Characters of a text that are shown before somebody asks for all. */
const SHORT = 6000;

/**
 * @typedef {object} PartProperties
 * @property {import("./transcript.js").Part} part
 * @property {number} number  its place in the message
 * @property {import("./transcript.js").Message} message
 * @property {string} path
 * @property {number} trace
 * @property {readonly import("./quotes.js").Quote[]} quotes
 * @property {boolean} [asTokens]
 * @property {boolean} [live]
 */

/** @param {PartProperties} properties */
export function Part({ part, number, message, path, trace, quotes, asTokens = false, live = false }) {
  const from = { path, trace, node: message.node.index, number, live };
  if (part.type === "tool_call") return html`<${ToolCall} part=${part} message=${message} from=${from} quotes=${quotes} asTokens=${asTokens} />`;
  if (part.type === "reasoning") {
    return html`<${Fold} label=${html`<b>Reasoning</b> <span class="faint small tn">${plural(part.length ?? part.text.length, "character")}</span>`} preview=${oneLine(part.text, 120)} open=${quotes.some((quote) => findQuote(part.text, quote))} class="reasoning">
      <${Text} part=${part} from=${from} quotes=${quotes} />
    </${Fold}>`;
  }
  if (part.type === "image") {
    const { media_type: form, length } = /** @type {any} */ (part);
    return html`<p class="dim"><span class="tag">image</span> ${form ?? ""} ${part.text ? html`<span class="mono">${oneLine(part.text, 300)}</span>` : html`<span class="faint">${count(length)} characters, in the record</span>`}</p>`;
  }
  if (part.type !== "text") return html`<p class="dim"><span class="tag">${oneLine(part.type, 40)}</span> ${oneLine(part.text, 300)}</p>`;
  return html`<${Text} part=${part} from=${from} quotes=${quotes} copy />`;
}

/**
 * A text with its marked passages; a long one is shown whole on demand.
 * @param {{part: import("./transcript.js").Part, from: {path: string, trace: number, node: number, number: number, live: boolean}, quotes: readonly import("./quotes.js").Quote[], mono?: boolean, copy?: boolean}} properties
 */
export function Text({ part, from, quotes, mono = false, copy = false }) {
  const [whole, setWhole] = useState(/** @type {string | null} */ (null));
  const [error, setError] = useState("");
  const text = whole ?? part.text;
  const found = quotes.map((quote) => /** @type {[number, number, string] | null} */ (withReason(findQuote(text, quote), quote.reason))).filter((passage) => passage !== null);
  const length = part.length ?? part.text.length;
  const short = whole === null && (length > SHORT || part.cut === true) && !found.some(([, end]) => end > SHORT);
  const shown = short ? text.slice(0, SHORT) : text;
  const all = async () => {
    if (!part.cut || from.live) {
      setWhole(part.text);
      return;
    }
    try {
      setWhole((await ask(address(`${from.path}/text`, { trace: from.trace, node: from.node, part: from.number }))).text);
    } catch (failed) {
      setError(/** @type {Error} */ (failed).message);
    }
  };
  const passages = found.filter(([start]) => start < shown.length);
  return html`<div class="text ${mono ? "mono" : ""}">
    ${passages.length > 0
      ? html`<p class="plain">${cutAt(shown, passages).map((piece, index) => (piece.marked ? html`<mark key=${index} title=${piece.reason || undefined}>${visibleText(piece.text)}</mark>` : visibleText(piece.text)))}</p>`
      : shown.length > SHORT
        ? blocks(shown).map((block, index) => html`<div key=${index} class="plain block">${visibleText(block)}</div>`)
        : html`<p class="plain">${visibleText(shown)}</p>`}
    ${(short || copy) && html`<p class="after">${short && html`<button type="button" class="lnk" onClick=${all}>Show all ${count(length)} characters</button>`}${copy && !part.cut && html`<${Copy} text=${text} />`}${error && html` <span class="bad">${error}</span>`}</p>`}
  </div>`;
}

/** @param {[number, number] | null} found @param {string | undefined} reason */
const withReason = (found, reason) => (found === null ? null : [found[0], found[1], reason ?? ""]);

/** @param {{part: import("./transcript.js").Part, message: import("./transcript.js").Message, from: any, quotes: readonly import("./quotes.js").Quote[], asTokens: boolean}} properties */
function ToolCall({ part, message, from, quotes, asTokens }) {
  const results = message.results.get(part.id ?? "") ?? [];
  const given = prettyArguments(part.text);
  const mine = quotes.filter((quote) => quote.node === undefined || quote.node === message.node.index);
  return html`<div class="tool">
    <${Fold} open=${!asTokens} label=${html`<${Icon} name="tool" size=${14} /><b class="mono">${oneLine(part.name ?? "unnamed tool", 80)}</b>`} preview=${oneLine(part.text, 100)}>
      <div class="code"><${Text} part=${{ ...part, text: given, length: part.cut ? part.length : given.length }} from=${from} quotes=${mine} mono copy /></div>
    </${Fold}>
    ${results.map((node) => html`<${Result} key=${node.index} node=${node} from=${from} quotes=${quotes.filter((quote) => quote.node === undefined || quote.node === node.index)} />`)}
    ${results.length === 0 && !asTokens && html`<p class="faint small">No result in this branch</p>`}
  </div>`;
}

/** @param {{node: import("./transcript.js").Node, from: any, quotes: readonly import("./quotes.js").Quote[]}} properties */
function Result({ node, from, quotes }) {
  const text = node.parts.map((part) => part.text).join("\n");
  const lines = text.split("\n").length;
  const marked = quotes.some((quote) => (quote.node === node.index || findQuote(text, quote) !== null));
  const trained = node.tokens > 0 ? `${plural(node.tokens, "token")}, not trained on` : "";
  return html`<div data-node=${node.index}><${Fold} open=${marked} label="Result" preview=${`${oneLine(text, 100)}${lines > 1 ? ` and ${plural(lines - 1, "more line")}` : ""}`} end=${trained}>
    <div class="code">${node.parts.map((part, index) => html`<${Text} key=${index} part=${part} from=${{ ...from, node: node.index, number: index }} quotes=${quotes} mono copy />`)}</div>
  </${Fold}></div>`;
}

/** Something that is folded until somebody opens it. @param {{label: any, preview?: string, end?: string, open?: boolean, class?: string, children?: any}} properties */
export function Fold({ label, preview = "", end = "", open = false, class: name = "", children }) {
  const [shown, setShown] = useState(/** @type {boolean | null} */ (null));
  const on = shown ?? open;
  return html`<div class="fold ${name}">
    <div class="fh"><button type="button" class="btn quiet tg" aria-expanded=${String(on)} onClick=${() => setShown(!on)}><${Icon} name=${on ? "down" : "right"} size=${12} />${label}</button>
      ${!on && preview && html`<span class="mono dim clip pv">${preview}</span>`}${end && html`<span class="small faint tn nowrap end">${end}</span>`}</div>
    ${on && children}
  </div>`;
}

/** The tools that the model was told of. @param {{tools: any[]}} properties */
export function ToolDefinitions({ tools }) {
  const names = tools.map((tool) => oneLine(String(tool?.name ?? tool?.function?.name ?? "unnamed"), 40)).join(", ");
  return html`<${Fold} label=${`${plural(tools.length, "tool")} defined`} preview=${names}>
    ${tools.map((tool, index) => {
      const schema = JSON.stringify(tool, null, 2);
      return html`<div key=${index} class="code"><pre class="mono">${visibleText(schema.slice(0, 20_000))}</pre><${Copy} text=${schema} /></div>`;
    })}
  </${Fold}>`;
}
