/** Finding a quoted passage in a text, whatever its white space. Pure. */

/**
 * @typedef {{quote: string, prefix?: string, suffix?: string, reason?: string, node?: number}} Quote
 */

/**
 * A text without its white space, and where each character of it stood.
 * @param {string} text
 */
function squeezed(text) {
  let out = "";
  const at = [];
  for (let index = 0; index < text.length; index += 1) {
    if (/\s/.test(text[index])) continue;
    out += text[index];
    at.push(index);
  }
  return { out, at };
}

/**
 * Where the quote stands in the text, from start up to end; null when it does not. Of several places the one between
 * `prefix` and `suffix`, else the first.
 * @param {string} text
 * @param {Quote} quote
 * @returns {[number, number] | null}
 */
export function findQuote(text, { quote, prefix = "", suffix = "" }) {
  const { out, at } = squeezed(text);
  const wanted = squeezed(quote).out;
  if (wanted === "") return null;
  const [before, after] = [squeezed(prefix).out, squeezed(suffix).out];
  let first = -1;
  for (let found = out.indexOf(wanted); found >= 0; found = out.indexOf(wanted, found + 1)) {
    if (first < 0) first = found;
    if (out.slice(0, found).endsWith(before) && out.startsWith(after, found + wanted.length)) {
      first = found;
      break;
    }
  }
  return first < 0 ? null : [at[first], at[first + wanted.length - 1] + 1];
}

/**
 * A text cut at passages: plain and marked parts in order. Passages that overlap are joined.
 * @param {string} text
 * @param {readonly (readonly [number, number, string?])[]} passages start, end, and why
 * @returns {{text: string, marked: boolean, reason: string}[]}
 */
export function cutAt(text, passages) {
  const parts = [];
  let at = 0;
  for (const [start, end, reason] of [...passages].sort((a, b) => a[0] - b[0])) {
    if (end <= at) continue;
    const from = Math.max(start, at);
    if (from > at) parts.push({ text: text.slice(at, from), marked: false, reason: "" });
    parts.push({ text: text.slice(from, end), marked: true, reason: reason ?? "" });
    at = end;
  }
  if (at < text.length || parts.length === 0) parts.push({ text: text.slice(at), marked: false, reason: "" });
  return parts;
}

/**
 * The tokens of a run of texts that a quote covers, from first up to last; null when it is not there.
 * @param {readonly string[]} texts
 * @param {Quote} quote
 * @returns {[number, number] | null}
 */
export function quotedTokens(texts, quote) {
  const found = findQuote(texts.join(""), quote);
  if (found === null) return null;
  let at = 0;
  let first = -1;
  for (let index = 0; index < texts.length; index += 1) {
    const end = at + texts[index].length;
    if (first < 0 && end > found[0]) first = index;
    if (end >= found[1]) return [first, index + 1];
    at = end;
  }
  return null;
}
