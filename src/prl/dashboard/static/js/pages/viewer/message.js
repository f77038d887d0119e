/** One piece of a message: its head in the gutter, and its text, or some of its tokens. */

import { count, duration } from "../../lib/format.js";
import { html, useLayoutEffect, useRef } from "../../lib/ui.js";
import { Chunk } from "./chunk.js";
import { Part, ToolDefinitions } from "./parts.js";
import { oneLine } from "./visible.js";

const ROLES = /** @type {Record<string, string>} */ ({ system: "System", user: "User", assistant: "Assistant", tool: "Tool", developer: "Developer" });

/**
 * @typedef {object} PieceProperties
 * @property {import("./chunks.js").Piece} piece
 * @property {import("./transcript.js").Message} message
 * @property {import("./tokens.js").Tokens} tokens
 * @property {import("./chunk.js").Paint} paint
 * @property {number} version
 * @property {(element: Element, key: string) => () => void} measure
 * @property {string} path  of the episode
 * @property {number} trace
 * @property {readonly import("./quotes.js").Quote[]} quotes
 * @property {any[] | null} tools  definitions, below the first message
 * @property {boolean} live
 */

/** @param {PieceProperties} properties */
export function Piece({ piece, message, tokens, paint, version, measure, path, trace, quotes, tools, live }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => measure(/** @type {HTMLElement} */ (box.current), piece.key), [piece.key]);
  const { node, number, asTokens } = message;
  const role = ROLES[node.role ?? ""] ?? oneLine(node.role ?? "Message", 30);
  const mine = quotes.filter((quote) => quote.node === undefined || quote.node === node.index);
  const body = asTokens
    ? html`<${Chunk} tokens=${tokens} first=${piece.first} last=${piece.last} paint=${paint} version=${version} about=${piece.about} label=${`${role}, tokens ${piece.first} to ${piece.last - 1}`} />
        ${piece.tail && node.parts.filter(({ type }) => type === "tool_call").map((part, index) => html`<${Part} key=${index} part=${part} number=${node.parts.indexOf(part)} message=${message} path=${path} trace=${trace} quotes=${quotes} asTokens live=${live} />`)}`
    : html`${node.parts.map((part, index) => html`<${Part} key=${index} part=${part} number=${index} message=${message} path=${path} trace=${trace} quotes=${part.type === "tool_call" ? quotes : mine} live=${live} />`)}
        ${node.parts.length === 0 && html`<p class="faint">${/** @type {any} */ (node).waiting ? "Waiting for an answer" : "No content"}</p>`}
        ${tools && tools.length > 0 && html`<${ToolDefinitions} tools=${tools} />`}`;
  return html`<article ref=${box} class="m ${piece.head ? "head" : ""} ${piece.tail ? "tail" : ""} ${/** @type {any} */ (node).waiting ? "waits" : ""}" data-node=${piece.head ? node.index : undefined} aria-label="${number} ${role}${piece.head ? "" : ", continued"}">
    <div class="mg">${piece.head ? html`<span class="tn faint">${number}</span><b>${role}</b><${Facts} node=${node} />` : html`<span class="tn faint cont">${number} ${role.toLowerCase()}, from token ${count(piece.first)}</span>`}</div>
    <div class="mb">${body}</div>
  </article>`;
}

/** What is known of a message: its tokens, and of one that the model wrote the call. @param {{node: import("./transcript.js").Node}} properties */
function Facts({ node }) {
  const call = node.call;
  if (!call) return html`<div class="small faint tn">${node.tokens > 0 ? `${count(node.tokens)} tokens` : ""}${/** @type {any} */ (node).waiting ? "not answered yet" : ""}</div>`;
  const lines = [
    call.input === null ? null : `${count(call.input + (call.cached ?? 0))} in${call.cached ? `, ${count(call.cached)} cached` : ""}`,
    call.output === null ? `${count(node.tokens)} tokens` : `${count(call.output)} out${call.seconds === null ? "" : `, ${duration(call.seconds)}`}`,
    call.policy === null ? null : `policy ${call.policy}`,
    call.cost === null ? null : `cost ${call.cost.toPrecision(2)}`,
    call.finish_reason && !["stop", "tool_calls"].includes(call.finish_reason) ? `stopped: ${oneLine(String(call.finish_reason), 40)}` : null,
  ].filter((line) => line !== null);
  return html`<div class="small faint tn" title=${call.model ? oneLine(String(call.model), 120) : undefined}>${lines.map((line) => html`<div key=${line} class=${line.startsWith("stopped") ? "warn" : ""}>${line}</div>`)}${call.error && html`<div class="bad">call failed</div>`}</div>`;
}
