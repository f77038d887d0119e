/** The findings of a run's verdict: each a sentence with its evidence, its cause and what to do. */

import { html } from "../lib/ui.js";
import { HealthBadge } from "./badge.js";
import { evidenceWords, findingLook, findingWhen, metricOf, rolloutsOf, sentences, shownEvidence } from "./facts.js";
import { Link, placeOf } from "./link.js";
import { useNavigation } from "../lib/location.js";
import { count, moment, plural } from "../lib/format.js";
import { Failed, Waiting } from "./states.js";
import { Ago } from "./time.js";

/**
 * @typedef {{text: string, source: string, offset: number | null, step: number | null, time: number | null, link: {page: string, params: Record<string, string>} | null}} Evidence
 * @typedef {{rule: string, severity: string, kind: string, message: string, cause: string | null, action: string | null, evidence: Evidence[]}} Finding
 */

const MOST_EVIDENCE = 4;

/**
 * @param {object} properties
 * @param {import("../lib/data.js").Data<any>} properties.verdict  of useVerdict
 * @param {number} [properties.atMost]  findings before the rest is folded
 */
export function Findings({ verdict: { data, error, again }, atMost = 5 }) {
  if (data === null && error) return html`<${Failed} error=${error} what="The findings could not be read." again=${again} />`;
  if (data === null) return html`<div class="finding" aria-busy="true"><${Waiting} width=${5} /><${Waiting} width=${24} /></div>`;
  /** @type {Finding[]} */
  const findings = data.findings;
  const rows = findings.map((finding, index) => html`<${Row} key=${`${finding.rule} ${index}`} finding=${finding} step=${data.verdict.step} />`);
  return html`<ul class="findings" aria-label="Findings">
      ${rows.length === 0 && html`<li class="finding quiet"><${HealthBadge} health=${data.verdict.health} /><div class="dim">${sentences(data.verdict.reason ?? "Nothing was found to be wrong")}</div></li>`}
      ${rows.slice(0, atMost)}
    </ul>
    ${rows.length > atMost && html`<details class="more-findings"><summary>${plural(rows.length - atMost, "more finding")}</summary><ul class="findings">${rows.slice(atMost)}</ul></details>`}
    ${data.unknown.length > 0 && html`<p class="unknowns small faint" title=${data.unknown.join("\n")}>Not known: ${data.unknown.slice(0, 2).join("; ")}${data.unknown.length > 2 ? ` and ${data.unknown.length - 2} more` : ""}</p>`}`;
}

/** @param {{finding: Finding, step: number | null}} properties */
function Row({ finding, step }) {
  const { place } = useNavigation();
  const look = findingLook(finding);
  const when = findingWhen(finding.evidence, step);
  const time = finding.evidence.find((one) => one.time !== null)?.time ?? null;
  const shown = shownEvidence(finding.evidence, MOST_EVIDENCE);
  const metric = metricOf(finding.evidence);
  const rollouts = rolloutsOf(finding.evidence);
  return html`<li class="finding">
    <${HealthBadge} health=${look} word=${finding.kind === "advice" ? "Advice" : look} />
    <div>
      <span class="say">${finding.message}</span>
      <div class="ev">
        ${shown.map((one, index) =>
          one.link
            ? html`<${Link} key=${index} class="clip" to=${placeOf(place, one.link)} title=${`${one.source}: ${one.text}`}>${evidenceWords(one, shown[index - 1])}</${Link}>`
            : html`<span key=${index} class="clip faint" title=${one.source}>${one.text || one.source}</span>`,
        )}
        ${finding.evidence.length > shown.length && html`<span class="faint" title=${finding.evidence.map(({ text, source }) => text || source).join("\n")}>${finding.evidence.length - shown.length} more</span>`}
        ${metric && html`<${Link} to=${place.to("metrics", metric)}>${metric.key} at step ${count(metric.at)}</${Link}>`}
        ${rollouts && html`<${Link} to=${place.to("traces", rollouts)}>Rollouts of step ${count(rollouts.step)}</${Link}>`}
        ${time !== null && html`<${Link} to=${place.to("logs", { at: time.toFixed(3) })} title=${moment(time)}>Logs of that time</${Link}>`}
      </div>
    </div>
    <div class="why">${sentences(finding.cause, finding.action)}</div>
    <div class="when">${when || (time !== null && html`<${Ago} time=${time} suffix=" ago" />`)}</div>
  </li>`;
}
