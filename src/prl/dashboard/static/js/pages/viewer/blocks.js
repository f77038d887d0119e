/** A long text in blocks that end with a line where they can: what is off the screen is not laid out. Pure. */

const BLOCK = 6000;

/** @param {string} text @param {number} [size] @returns {string[]} which joined, with a newline where a block ended with one, are the text */
export function blocks(text, size = BLOCK) {
  const found = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + size);
    const line = end < text.length ? text.lastIndexOf("\n", end) : -1;
    const cut = line > at + size / 4;
    if (cut) end = line;
    // A character of two halves is not parted.
    else if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1])) end -= 1;
    found.push(text.slice(at, end));
    at = cut ? end + 1 : end;
  }
  return found;
}
