/** The messages of a trace in the order they are read, with tools under their calls. Pure. */

import { cuts } from "./chunks.js";

/**
 * @typedef {{type: string, text: string, name?: string | null, id?: string | null, cut?: boolean, length?: number}} Part  the text of a call is its arguments
 * @typedef {{index: number, parent: number | null, role: string | null, sampled: boolean, parts: readonly Part[], tool_call_id?: string | null, answers?: number | null, timestamp: number | null, tokens: number, call: any, problems?: readonly string[]}} Node
 * @typedef {{index: number, leaf?: number, nodes: readonly number[] | null, tokens: number, turns?: number, parts_at?: number | null}} Branch
 * @typedef {{node: Node, number: number, first: number, asTokens: boolean, results: Map<string, Node[]>}} Message
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
  const path = branch === null ? nodes.map(({ index }) => index) : pathOf(branch, byIndex);
  /** @type {Message[]} */
  const messages = [];
  /** @type {Map<number, Message>} */
  const drawn = new Map();
  let first = 0;
  path.forEach((index, place) => {
    const node = byIndex.get(index);
    if (!node) return;
    const start = branch === null ? -1 : first;
    first += node.tokens;
    const called = typeof node.answers === "number" ? drawn.get(node.answers) : undefined;
    if (called && tokens !== "all") {
      const id = node.tool_call_id ?? "";
      called.results.set(id, [...(called.results.get(id) ?? []), node]);
      return;
    }
    const asTokens = branch !== null && node.tokens > 0 && (tokens === "all" || (tokens === "sampled" && node.sampled));
    const message = { node, number: place + 1, first: start, asTokens, results: new Map() };
    messages.push(message);
    drawn.set(index, message);
  });
  return messages;
}

/** The nodes of a branch from its root: as the server gives them, else by the parents of its leaf. @param {Branch} branch @param {Map<number, Node>} byIndex */
function pathOf(branch, byIndex) {
  if (branch.nodes !== null) return branch.nodes;
  const path = [];
  const seen = new Set();
  for (let at = /** @type {number | null} */ (branch.leaf ?? null); at !== null && !seen.has(at); at = byIndex.get(at)?.parent ?? null) {
    seen.add(at);
    path.push(at);
  }
  return path.reverse();
}

/** How many characters a message has. @param {Node} node */
function sizeOf(node) {
  return node.parts.reduce((sum, { text }) => sum + text.length, 0);
}

const LINE = 23;
const ROOM = 20;

/**
 * The pieces that messages are drawn in.
 * @param {readonly Message[]} messages
 * @param {(nominal: number) => number} near  where to cut near a place
 * @param {number} width pixels that a message's text has
 * @returns {import("./chunks.js").Piece[]}
 */
export function piecesOf(messages, near, width) {
  const perLine = Math.max(20, Math.min(96, Math.floor(width / 7.8)));
  /** @type {import("./chunks.js").Piece[]} */
  const pieces = [];
  messages.forEach(({ node, first, asTokens }, message) => {
    if (!asTokens) {
      const about = ROOM + 20 * Math.max(2, Math.min(24, Math.ceil(sizeOf(node) / (perLine * 1.2))));
      pieces.push({ key: `${node.index} text`, message, first: 0, last: 0, from: first, to: first + node.tokens, head: true, tail: true, about });
      return;
    }
    const starts = cuts(first, first + node.tokens, near);
    starts.forEach((start, nth) => {
      const last = starts[nth + 1] ?? first + node.tokens;
      const lines = Math.ceil(((last - start) * 4.2) / perLine);
      pieces.push({ key: `${node.index} ${nth}`, message, first: start, last, from: start, to: last, head: nth === 0, tail: nth === starts.length - 1, about: lines * LINE + (nth === 0 ? ROOM : 0) });
    });
  });
  return pieces;
}

/** The message of a node, or -1. A folded result is in the message of its call. @param {readonly Message[]} messages @param {number} node */
export function messageOfNode(messages, node) {
  return messages.findIndex((message) => message.node.index === node || [...message.results.values()].flat().some(({ index }) => index === node));
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
