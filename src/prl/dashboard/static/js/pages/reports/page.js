/** The reports page: what people and agents wrote about the run, STATUS.md first, with citations that were checked. */

import { runPath } from "../../lib/api.js";
import { useData } from "../../lib/data.js";
import { plural } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { usePulse } from "../../lib/pulse.js";
import { html } from "../../lib/ui.js";
import { RunHeader } from "../../parts/header.js";
import { Icon } from "../../parts/icons.js";
import { Link, placeOf } from "../../parts/link.js";
import { Empty, Failed, Waiting } from "../../parts/states.js";
import { Ago } from "../../parts/time.js";
import { Blocks } from "./blocks.js";

export default function Page() {
  const { place } = useNavigation();
  const run = /** @type {string} */ (place.run);
  const version = usePulse().run?.header ?? null;
  const { data, error, again } = useData(runPath(run, "reports"), {}, { version });
  const rows = data?.rows ?? [];
  const name = place.get("report") || rows[0]?.name || "";
  return html`<div class="reports"><${RunHeader} />
    ${error && html`<${Failed} error=${error} what="The reports could not be listed." again=${again} />`}
    ${data && rows.length === 0 && html`<${Empty}>No reports yet. \`prl check-in\` writes STATUS.md; what people and agents write below reports/ appears here as well.</${Empty}>`}
    ${rows.length > 0 &&
    html`<div class="rp"><nav aria-label="Reports"><ul>${rows.map(
        (/** @type {any} */ row) => html`<li key=${row.name}><${Link} to=${place.with({ report: row.name })} aria-current=${row.name === name ? "page" : undefined}><span class="clip">${row.name === "STATUS.md" ? "Check-ins" : row.title || row.name}</span><span class="faint small nowrap"><${Ago} time=${row.changed} suffix=" ago" /></span></${Link}></li>`,
      )}</ul></nav>
      <${Report} run=${run} name=${name} version=${version} /></div>`}
  </div>`;
}

/** @param {{run: string, name: string, version: unknown}} properties */
function Report({ run, name, version }) {
  const { place } = useNavigation();
  const { data, error, again } = useData(name ? runPath(run, "reports", name) : null, {}, { version });
  if (error && !data) return html`<${Failed} error=${error} what="The report could not be read." again=${again} />`;
  if (!data) return html`<p class="state"><${Waiting} width=${20} /></p>`;
  const citations = new Map(data.citations.map((/** @type {any} */ one) => [one.id, one]));
  const broken = data.citations.filter((/** @type {any} */ one) => one.found === false).length;
  const cite = (/** @type {string} */ id) => {
    const one = citations.get(id);
    if (!one) return `[${id}]`;
    const look = one.found === true ? { icon: "ok", tone: "ok", word: "found in the trace" } : one.found === false ? { icon: "bad", tone: "bad", word: "not in the trace" } : { icon: "unknown", tone: "unknown", word: "not checked" };
    const title = [one.note, one.quote && `\u201c${one.quote}\u201d`, one.reason].filter(Boolean).join("\n");
    const chip = html`<span class="cite ${look.tone}"><${Icon} name=${look.icon} size=${12} />${id} ${look.word}</span>`;
    return one.link ? html`<${Link} to=${placeOf(place, one.link)} title=${title}>${chip}</${Link}>` : html`<span title=${title}>${chip}</span>`;
  };
  return html`<article class=${name === "STATUS.md" ? "check-ins" : ""} aria-label=${data.title || name}>
    ${broken > 0 && html`<p class="warn"><${Icon} name="warn" size=${12} /> ${plural(broken, "citation")} of ${data.citations.length} ${broken === 1 ? "is" : "are"} not in the trace that ${broken === 1 ? "it quotes" : "they quote"}.</p>`}
    <${Blocks} blocks=${data.blocks} citation=${cite} />
  </article>`;
}
