/** What a model wrote, made visible and harmless: marks for what has no shape, and nothing that turns the line. Pure. */

/** Controls, separators, what turns text, has no width, or hides a text in another ("tags"). Tab and newline apart. */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;

/** More marks above a letter than any language has: they would cover the lines around. */
const STACKED = /(\p{M}{4})\p{M}+/gu;

/** @param {string} character */
function mark(character) {
  const code = /** @type {number} */ (character.codePointAt(0));
  if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `\u2329U+${code.toString(16).toUpperCase().padStart(4, "0")}\u232a`;
}

/** Text of a message: its lines stay, the rest is made visible. @param {string} text */
export function visibleText(text) {
  return text.replace(/\r\n/g, "\n").replace(UNSEEN, mark).replace(STACKED, "$1\u2026");
}

/** Text of a token: newlines and tabs have a mark too, and stay what they are. @param {string} text */
export function visibleToken(text) {
  return visibleText(text).replace(/\n/g, "\u23ce\n").replace(/\t/g, "\u21e5\t");
}

/** Text of a token in one line, where its spaces count. @param {string} text */
export function tokenName(text) {
  const shown = visibleText(text).replace(/\n/g, "\u23ce").replace(/\t/g, "\u21e5").replace(/^ +| +$/g, (spaces) => "\u2423".repeat(spaces.length));
  return shown === "" ? "empty" : shown.length > 40 ? `${shown.slice(0, 40)}\u2026` : shown;
}

/** The first line that says something, for one line of a list. @param {string} text @param {number} [most] */
export function oneLine(text, most = 200) {
  const line = visibleText(text.slice(0, most * 4)).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most)}\u2026` : line;
}
