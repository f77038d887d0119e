/** The words in which a run, its job and its findings are told. Pure. */

import { count, duration, plural } from "../lib/format.js";

const WORDS = /** @type {Record<string, string>} */ ({ rl: "RL", sft: "SFT", eval: "eval" });

/** "running" as a word that begins a line. @param {string | null | undefined} text */
export function capital(text) {
  return text ? text[0].toUpperCase() + text.slice(1) : "";
}

/** The model's own name and what is done with it: "Qwen3-0.6B, RL". @param {{model: string | null, kind: string | null}} run */
export function modelWords({ model, kind }) {
  return [model ? model.replace(/\/+$/, "").split("/").at(-1) : "unknown model", WORDS[kind ?? ""] ?? kind].filter(Boolean).join(", ");
}

/**
 * "2 h left" of a SLURM limit, which is seconds or SLURM's own form.
 * @param {number | string | null | undefined} left
 */
function timeLeft(left) {
  if (left === null || left === undefined || left === "") return "";
  return `${typeof left === "number" ? duration(left) : left} left`;
}

/**
 * A SLURM job in two lines.
 * @param {{id: string | number, state: string | null, reason: string | null, nodes: readonly string[] | number | null, time_left: number | null} | null} job
 * @returns {[string, string]}
 */
export function jobWords(job) {
  if (job === null) return ["no job", ""];
  const nodes = typeof job.nodes === "number" ? job.nodes : (job.nodes?.length ?? 0);
  const reason = job.reason && job.reason !== "None" ? job.reason : "";
  return [
    `${job.id}${job.state ? ` ${job.state.toLowerCase().replaceAll("_", " ")}` : ""}`,
    [nodes ? plural(nodes, "node") : "", timeLeft(job.time_left), reason].filter(Boolean).join(", "),
  ];
}

/** What the bar of steps looks like for a phase. @param {string | null} health @param {string | null} phase @returns {"" | "bad" | "idle"} */
export function stepsLook(health, phase) {
  if (health === "Down") return "bad";
  return ["stopped", "requeued", "queued", "preempted", "unknown", null].includes(phase) ? "idle" : "";
}

/** "/ 1,000", "/ no end", or nothing. @param {{max_steps: number | null, endless: boolean}} run */
export function endWords({ max_steps: max, endless }) {
  if (max !== null) return `/ ${count(max)}`;
  return endless ? "/ no end" : "";
}

/** Texts as sentences, one after the other: each begins large and ends with a stop. @param {...(string | null | undefined)} texts */
export function sentences(...texts) {
  return texts.map((text) => (text ?? "").trim()).filter(Boolean).map((text) => capital(text) + (/[.!?:]$/.test(text) ? "" : ".")).join(" ");
}

const SEVERITIES = /** @type {Record<string, string>} */ ({ critical: "Down", warning: "Degraded", info: "Note" });

/** The look of a finding: advice and information are notes. @param {{severity: string, kind?: string}} finding */
export function findingLook({ severity, kind }) {
  return kind === "advice" ? "Note" : (SEVERITIES[severity] ?? "Note");
}

/**
 * When a finding is of: "step 371, 41 steps ago".
 * @param {readonly {step: number | null, time: number | null}[]} evidence
 * @param {number | null} step the run's newest
 */
export function findingWhen(evidence, step) {
  const at = evidence.find((one) => one.step !== null && one.step !== undefined)?.step ?? null;
  if (at === null) return "";
  if (step === null || step <= at) return `step ${count(at)}`;
  return `step ${count(at)}, ${plural(step - at, "step")} ago`;
}

/** Overlays that show the tokens behind a metric, by how its key begins. */
const OVERLAYS = /** @type {const} */ ([[/mismatch_kl|kl_ent_ratio/, "mismatch_kl"], [/^entropy\//, "entropy"], [/^is_masked/, "stable"]]);

/**
 * What a finding's evidence is called where it is a link: a value with its step, and its key once in a row of values.
 * @param {{text: string, source: string, step: number | null, link: {page: string, params: Record<string, string>} | null}} one
 * @param {{link: {page: string, params: Record<string, string>} | null} | undefined} before  the one on its left
 */
export function evidenceWords(one, before) {
  const key = one.link?.page === "metrics" ? one.link.params.key : undefined;
  const same = key !== undefined && before?.link?.page === "metrics" && before.link.params.key === key;
  const said = same && one.text.startsWith(`${key} = `) ? one.text.slice(key.length + 3) : one.text || one.source;
  return one.step === null || /\bstep\b/.test(said) ? said : `${said} at step ${count(one.step)}`;
}

/**
 * The evidence that is shown: of values of one key the first two, which are enough to see where it is, and of what is
 * said twice that which says when.
 * @template {{text: string, step: number | null, link: {page: string, params: Record<string, string>} | null}} E
 * @param {readonly E[]} evidence @param {number} most
 * @returns {E[]}
 */
export function shownEvidence(evidence, most) {
  const keyOf = (/** @type {E} */ one) => (one.link?.page === "metrics" ? one.link.params.key : undefined);
  const told = evidence.filter((one) => one.step !== null || !evidence.some((other) => other.text === one.text && other.step !== null));
  return told.filter((one, index) => keyOf(one) === undefined || told.slice(0, index).filter((other) => keyOf(other) === keyOf(one)).length < 2).slice(0, most);
}

/**
 * The metric that a line of the log speaks of, at its step: what was not a number was not written as one.
 * @param {readonly {text: string, step: number | null, link: {page: string} | null}[]} evidence
 * @returns {{key: string, at: number} | null}
 */
export function metricOf(evidence) {
  for (const { text, step, link } of evidence) {
    const key = /^(\S+) is not a number$/.exec(text)?.[1];
    if (key !== undefined && step !== null && link?.page === "logs") return { key, at: step };
  }
  return null;
}

/**
 * Where the rollouts of a finding are, with the overlay that shows its tokens; null where no step is known.
 * @param {readonly {text: string, step: number | null, link: {page: string, params: Record<string, string>} | null}[]} evidence
 * @returns {{step: number, overlay: string | null} | null}
 */
export function rolloutsOf(evidence) {
  const one = evidence.find(({ step }) => step !== null);
  if (!one || one.step === null) return null;
  const key = one.link?.params.key ?? "";
  return { step: one.step, overlay: OVERLAYS.find(([keys]) => keys.test(key.replace(/^\w+:/, "")))?.[1] ?? null };
}

const WARRANTED = /** @type {Record<string, string>} */ ({ yes: "A restart is warranted.", no: "No restart.", unknown: "Whether to restart is not known." });

/** @param {string} warranted "yes", "no" or "unknown" */
export function warrantedWords(warranted) {
  return WARRANTED[warranted] ?? WARRANTED.unknown;
}
