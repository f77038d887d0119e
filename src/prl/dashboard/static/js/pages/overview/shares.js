/** The parts of a step's time, in an order and with colours that stay. Pure. */

/** @typedef {{shares: {cause: string, share: number, seconds: number}[], unaccounted?: number, seconds: number, first_step: number, last_step: number, grow: string | null, why: string, trainer_waits: number}} Bottleneck */

/** Colours of the causes; those that wait for something are hatched grey, as is what no record tells. */
const LOOKS = /** @type {Record<string, string>} */ ({
  generation: "f1",
  environment: "f5",
  scoring: "f6",
  training: "f2",
  "weight broadcast": "f3",
  checkpoint: "f4",
  evaluation: "f0",
  "waiting for a batch": "f7",
  "waiting for a policy": "f8",
});
const ORDER = Object.keys(LOOKS);
const UNRECORDED = "not recorded";
/** A part below this is no part. */
const LEAST = 0.001;

/**
 * @param {Bottleneck} bottleneck
 * @returns {{cause: string, share: number, seconds: number, from: number, color: string}[]} from left to right
 */
export function segments({ shares, unaccounted = 0, seconds }) {
  const place = (/** @type {string} */ cause) => (ORDER.includes(cause) ? ORDER.indexOf(cause) : ORDER.length);
  const known = [...shares].sort((a, b) => place(a.cause) - place(b.cause));
  const all = unaccounted > 0 ? [...known, { cause: UNRECORDED, share: unaccounted, seconds: unaccounted * seconds }] : known;
  let from = 0;
  return all.filter(({ share }) => share >= LEAST).map((part) => {
    const segment = { ...part, from, color: LOOKS[part.cause] ?? "f9" };
    from += part.share;
    return segment;
  });
}

const GROW = /** @type {Record<string, string>} */ ({ inference: "Bound by inference", environments: "Bound by environments", trainer: "Bound by the trainer" });

/** Which side holds up the run; "" when neither does. @param {Bottleneck} bottleneck */
export function boundBy({ grow }) {
  return grow === null ? "" : (GROW[grow] ?? `Bound by ${grow}`);
}
