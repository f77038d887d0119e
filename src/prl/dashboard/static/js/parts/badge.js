/** Health as an icon and a word, and the severity of a finding: colour is never the only sign. */

import { html } from "../lib/ui.js";
import { Icon } from "./icons.js";

/** @type {Record<string, {icon: "ok" | "warn" | "bad" | "unknown" | "note", tone: string}>} */
const LOOKS = {
  healthy: { icon: "ok", tone: "ok" },
  degraded: { icon: "warn", tone: "warn" },
  down: { icon: "bad", tone: "bad" },
  unknown: { icon: "unknown", tone: "unknown" },
  note: { icon: "note", tone: "note" },
};

/** @param {{health: string | null, pill?: boolean, word?: string}} properties `health` null: not judged yet */
export function HealthBadge({ health, pill = false, word }) {
  const { icon, tone } = LOOKS[(health ?? "unknown").toLowerCase()] ?? LOOKS.unknown;
  return html`<span class="badge ${pill ? "pill" : ""} ${tone}"><${Icon} name=${icon} />${word ?? health ?? "Not judged yet"}</span>`;
}
