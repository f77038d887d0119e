/** Which pieces a transcript is drawn in, and where each lies: only those near the screen are drawn. Pure. */

/** Tokens of a piece, about: cut where a line ends, when one ends near. */
const CHUNK = 256;
export const NEAR = 112;

/**
 * Where to cut tokens first up to last.
 * @param {number} first
 * @param {number} last
 * @param {(nominal: number) => number} near  where to cut near a place
 * @param {number} [size]
 * @returns {number[]} the first token of each piece
 */
export function cuts(first, last, near, size = CHUNK) {
  const found = [first];
  // Cuts lie near multiples of the size from the first on, whatever lies before, so that those of one place stay.
  for (let nominal = first + size; nominal < last - NEAR; nominal += size) found.push(near(nominal));
  return found;
}

/** The cut behind the end of a line that is nearest to a place; the place itself where no line ends near. @param {number} nominal @param {(position: number) => boolean} endsLine */
export function cutNear(nominal, endsLine) {
  for (let away = 0; away < NEAR; away += 1) {
    if (endsLine(nominal - 1 - away)) return nominal - away;
    if (endsLine(nominal - 1 + away)) return nominal + away;
  }
  return nominal;
}

/**
 * @typedef {object} Piece
 * @property {string} key
 * @property {number} message  place of its message in the transcript
 * @property {number} first  token of the branch; equal to last for a piece of text
 * @property {number} last
 * @property {number} from  the tokens that it stands for, drawn as such or not; -1 where they have no place
 * @property {number} to
 * @property {boolean} head  the first of its message
 * @property {boolean} tail  the last of its message
 * @property {number} about  its height before it was drawn, pixels
 */

/** Heights of pieces: guessed until they were drawn, then as they were. */
export class Heights {
  constructor() {
    /** @type {Map<string, number>} */
    this.known = new Map();
  }

  /** @param {string} key @param {number} height @returns {boolean} whether that was new */
  measure(key, height) {
    if (height <= 0 || Math.abs((this.known.get(key) ?? -1) - height) < 0.5) return false;
    this.known.set(key, height);
    return true;
  }

  /** @param {Piece} piece */
  of(piece) {
    return this.known.get(piece.key) ?? piece.about;
  }

  /** The top of each piece, and after the last one the height of all. @param {readonly Piece[]} pieces */
  tops(pieces) {
    const tops = new Float64Array(pieces.length + 1);
    for (let index = 0; index < pieces.length; index += 1) tops[index + 1] = tops[index] + this.of(pieces[index]);
    return tops;
  }
}

/**
 * The pieces between two heights, from first up to last.
 * @param {Float64Array} tops of {@link Heights.tops}
 * @param {number} from
 * @param {number} to
 * @returns {[number, number]}
 */
export function piecesBetween(tops, from, to) {
  const count = tops.length - 1;
  const first = Math.max(0, Math.min(count - 1, upper(tops, from) - 1));
  const last = Math.max(first + 1, Math.min(count, upper(tops, to)));
  return count === 0 ? [0, 0] : [first, last];
}

/** How many tops are at most `height`. @param {Float64Array} tops @param {number} height */
function upper(tops, height) {
  let [low, high] = [0, tops.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tops[middle] <= height) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The piece that stands for a token, or the last one before it; -1 when there is none. @param {readonly Piece[]} pieces @param {number} token */
export function pieceOfToken(pieces, token) {
  let found = -1;
  for (let index = 0; index < pieces.length && pieces[index].from <= token; index += 1) found = index;
  return token < 0 || found < 0 || pieces[found].from < 0 ? -1 : found;
}

/**
 * The token at a height: how far into its piece, so far into the tokens of it.
 * @param {readonly Piece[]} pieces
 * @param {Float64Array} tops
 * @param {number} height
 */
export function tokenAt(pieces, tops, height) {
  if (pieces.length === 0) return 0;
  const index = Math.max(0, Math.min(pieces.length - 1, upper(tops, height) - 1));
  const { from, to } = pieces[index];
  const share = (height - tops[index]) / Math.max(1, tops[index + 1] - tops[index]);
  return Math.round(from + Math.min(1, Math.max(0, share)) * (to - from));
}

/** The next token that is drawn, or the one before; null at the end. @param {readonly Piece[]} pieces @param {number} token @param {1 | -1} by */
export function besideToken(pieces, token, by) {
  const wanted = token + by;
  const ordered = by > 0 ? pieces : [...pieces].reverse();
  for (const { first, last } of ordered) {
    if (last <= first) continue;
    if (wanted >= first && wanted < last) return wanted;
    if (by > 0 && first > wanted) return first;
    if (by < 0 && last - 1 < wanted) return last - 1;
  }
  return null;
}
