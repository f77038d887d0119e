/** Passages that are marked: those an agent asked to be shown, and a hit of a search. */

import { useNavigation } from "../../lib/location.js";
import { usePulse } from "../../lib/pulse.js";
import { useMemo } from "../../lib/ui.js";
import { quotedTokens } from "./quotes.js";

/**
 * @param {readonly import("./transcript.js").Message[]} messages
 * @param {import("./tokens.js").Tokens} tokens
 * @param {number} version
 * @param {"none" | "sampled" | "all"} form
 * @returns {{quotes: import("./quotes.js").Quote[], quoted: [number, number, string][]}} `quoted`: as tokens, of messages that are drawn as such
 */
export function useQuotes(messages, tokens, version, form) {
  const { place } = useNavigation();
  const { view } = usePulse();
  const marks = place.number("marks");
  const [find, node] = [place.get("quote"), place.number("node")];
  const asked = marks !== null && view?.seq === marks ? view.command.highlight : null;
  const quotes = useMemo(
    () => /** @type {import("./quotes.js").Quote[]} */ ([...(asked ?? []), ...(find ? [{ quote: find, ...(node === null ? {} : { node }) }] : [])]),
    [asked, find, node],
  );
  const quoted = useMemo(() => {
    if (form === "none" || quotes.length === 0) return NONE;
    return quotes.flatMap((quote) =>
      messages.filter((message) => message.asTokens && (quote.node === undefined || quote.node === message.node.index)).flatMap((message) => tokensOf(message, tokens, quote)),
    );
  }, [quotes, messages, version, form]);
  return { quotes, quoted };
}

/** @type {[number, number, string][]} */
const NONE = [];
/** Tokens of a message in which a quote is looked for. */
const MOST = 20_000;

/** @param {import("./transcript.js").Message} message @param {import("./tokens.js").Tokens} tokens @param {import("./quotes.js").Quote} quote @returns {[number, number, string][]} */
function tokensOf(message, tokens, quote) {
  const last = message.first + Math.min(message.node.tokens, MOST);
  if (!tokens.has(message.first, last)) return [];
  const texts = [];
  for (let position = message.first; position < last; position += 1) texts.push(tokens.text(position) ?? "");
  const found = quotedTokens(texts, quote);
  return found === null ? [] : [[message.first + found[0], message.first + found[1], quote.reason ?? ""]];
}
