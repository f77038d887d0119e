/** The messages of a trace in the order they are read, with tools under their calls. Pure. */

import { cuts } from "./chunks.js";

/**
 * @typedef {{type: string, text?: string | null, name?: string | null, arguments?: string | null, id?: string | null, cut?: boolean}} Part
 * @typedef {{index: number, parent: number | null, role: string | null, sampled: boolean, parts: readonly Part[], tool_call_id?: string | null, timestamp: number | null, tokens: number, call: any, problems?: readonly string[]}} Node
 * @typedef {{index: number, nodes: readonly number[], tokens: number, parts_at?: number | null}} Branch
 * @typedef {{node: Node, number: number, first: number, asTokens: boolean, results: Map<string, Node>}} Message
 */

/**
 * The messages of a branch, or of all (`branch` null) in the order they were written.
 * @param {readonly Node[]} nodes
 * @param {Branch | null} branch
 * @param {"none" | "sampled" | "all"} tokens of which messages the tokens are drawn
 * @returns {Message[]}
 */
export function messagesOf(nodes, branch, tokens) {
  const byIndex = new Map(nodes.map((node) => [node.index, node]));
  const path = branch === null ? nodes.map(({ index }) => index) : branch.nodes;
  /** @type {Message[]} */
  const messages = [];
  /** Calls that are not answered yet, by their id. @type {Map<string, Message>} */
  const calls = new Map();
  let first = 0;
  path.forEach((index, place) => {
    const node = byIndex.get(index);
    if (!node) return;
    const start = branch === null ? -1 : first;
    first += node.tokens;
    const called = node.tool_call_id ? calls.get(node.tool_call_id) : undefined;
    if (called && tokens !== "all") {
      called.results.set(/** @type {string} */ (node.tool_call_id), node);
      return;
    }
    const asTokens = branch !== null && node.tokens > 0 && (tokens === "all" || (tokens === "sampled" && node.sampled));
    const message = { node, number: place + 1, first: start, asTokens, results: new Map() };
    messages.push(message);
    for (const part of node.parts) if (part.type === "tool_call" && part.id) calls.set(part.id, message);
  });
  return messages;
}

/** How many characters a message has. @param {Node} node */
export function sizeOf(node) {
  return node.parts.reduce((sum, { text, arguments: given }) => sum + (text?.length ?? 0) + (given?.length ?? 0), 0);
}

const LINE = 23;
const ROOM = 20;

/**
 * The pieces that messages are drawn in.
 * @param {readonly Message[]} messages
 * @param {(position: number) => boolean} endsLine
 * @param {number} width pixels that a message's text has
 * @returns {import("./chunks.js").Piece[]}
 */
export function piecesOf(messages, endsLine, width) {
  const perLine = Math.max(20, Math.min(96, Math.floor(width / 7.8)));
  /** @type {import("./chunks.js").Piece[]} */
  const pieces = [];
  messages.forEach(({ node, first, asTokens }, message) => {
    if (!asTokens) {
      const about = ROOM + 20 * Math.max(2, Math.min(24, Math.ceil(sizeOf(node) / (perLine * 1.2))));
      pieces.push({ key: `${node.index} text`, message, first: Math.max(0, first), last: Math.max(0, first), head: true, tail: true, about });
      return;
    }
    const starts = cuts(first, first + node.tokens, endsLine);
    starts.forEach((start, nth) => {
      const last = starts[nth + 1] ?? first + node.tokens;
      const lines = Math.ceil(((last - start) * 4.2) / perLine);
      pieces.push({ key: `${node.index} ${nth}`, message, first: start, last, head: nth === 0, tail: nth === starts.length - 1, about: lines * LINE + (nth === 0 ? ROOM : 0) });
    });
  });
  return pieces;
}

/** The message of a node, or -1. A folded result is in the message of its call. @param {readonly Message[]} messages @param {number} node */
export function messageOfNode(messages, node) {
  return messages.findIndex((message) => message.node.index === node || [...message.results.values()].some(({ index }) => index === node));
}

/** Arguments of a call, in lines where they are JSON. @param {string | null | undefined} text */
export function prettyArguments(text) {
  if (!text) return "";
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}
