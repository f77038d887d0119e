/** Where the time of a trace went: lanes of spans on one axis, and where the policy changed. */

import { count, duration, moment } from "../../lib/format.js";
import { useNavigation } from "../../lib/location.js";
import { html, useEffect, useMemo, useRef, useState } from "../../lib/ui.js";
import { Link } from "../../parts/link.js";
import { drawing, secondsOf } from "./lanes.js";
import { oneLine } from "./visible.js";

/** @type {readonly [string, string, readonly string[]][]} */
const LEGEND = [["1", "model call", ["model"]], ["6", "tool", ["tool"]], ["5", "boot, setup", ["boot", "setup"]], ["3", "finalize", ["finalize"]], ["2", "scoring", ["scoring"]]];
const ROWS = 500;

/** @param {{trace: any, policies: any, large?: boolean}} properties */
export function Timing({ trace, policies, large = false }) {
  const { place, go } = useNavigation();
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    const sized = new ResizeObserver(() => setWidth(element.clientWidth));
    sized.observe(element);
    return () => sized.disconnect();
  }, []);
  const lanes = trace.lanes;
  const drawn = useMemo(() => (width > 0 ? drawing(lanes, policies?.policies ?? [], width, { left: width < 500 ? 76 : 124 }) : null), [lanes, policies, width]);
  const kinds = LEGEND.filter(([, , of]) => secondsOf(lanes, of) > 0);
  const parts = kinds.map(([, label, of]) => `${duration(secondsOf(lanes, of))} ${label === "model call" ? "in model calls" : label === "tool" ? "in tools" : label}`);
  const said = drawn === null ? "No times are recorded." : `${duration(drawn.seconds)}: ${parts.join(", ")}`;
  const at = (/** @type {any} */ span) => span.node !== null && span.node !== undefined && go(place.with({ node: span.node, token: null, view: null }));
  return html`<section class=${large ? "ln2 large" : "ln2"} aria-label="Timing">
    <div class="row"><h2>Timing</h2><span class="dim tn clip">${width === 0 ? "" : said}</span><span class="grow"></span>
      ${kinds.map(([colour, label]) => html`<span key=${label} class="small dim nowrap hide-m"><i class="sw b${colour}" aria-hidden="true"></i>${label}</span>`)}</div>
    <div ref=${box} class="lanebox">
      ${drawn &&
      html`<svg class="lanes" width=${width} height=${drawn.height} role="img" aria-label=${`Timing lanes. ${said}`}>
        ${drawn.ticks.map(({ seconds, x }) => html`<path key=${`g${seconds}`} class="g" d="M${x} 14V${drawn.height - 18}" /><text key=${`t${seconds}`} x=${x} y=${drawn.height - 4} text-anchor="middle">${duration(seconds)}</text>`)}
        ${drawn.rows.map((row, index) => html`<g key=${index}><text class="ll" x="0" y=${row.y + 13}>${row.label}</text>
          ${row.spans.map((span, nth) => html`<rect key=${nth} class="span ${span.fill} ${span.node === null || span.node === undefined ? "" : "to"}" x=${span.x} y=${row.y + 3} width=${span.width} height="12" rx="1.5" onClick=${() => at(span)}><title>${`${span.kind}${span.label && span.label !== span.kind ? `, ${oneLine(span.label, 80)}` : ""}: ${duration(span.seconds)} from ${moment(span.start)}${span.open ? ", goes on" : ""}`}</title></rect>`)}</g>`)}
        ${drawn.policies.map(({ version, x }, index) => html`<path key=${`p${version}`} class="att" d="M${x} 2V${drawn.height - 18}" />${(index === 0 || x - drawn.policies[index - 1].x > 64) && html`<text key=${`v${version}`} x=${x + 4} y="11">policy ${version}</text>`}`)}
      </svg>`}
    </div>
    ${large && html`<${Calls} trace=${trace} />`}
  </section>`;
}

/** The spans as a table: what the drawing shows, to be read and followed. @param {{trace: any}} properties */
function Calls({ trace }) {
  const { place } = useNavigation();
  const spans = trace.lanes.flatMap((/** @type {any} */ lane) => lane.spans.map((/** @type {any} */ span) => ({ ...span, lane: lane.label }))).sort((/** @type {any} */ a, /** @type {any} */ b) => (a.start ?? 0) - (b.start ?? 0));
  const first = spans[0]?.start ?? 0;
  return html`<table class="table calls" aria-label="Spans">
    <thead><tr><th scope="col">Lane</th><th scope="col">What</th><th scope="col" class="num">Begins</th><th scope="col" class="num">Took</th><th scope="col">Message</th></tr></thead>
    <tbody>${spans.slice(0, ROWS).map((/** @type {any} */ span, /** @type {number} */ index) => html`<tr key=${index}><td>${span.lane}</td><td>${span.kind}${span.label && span.label !== span.kind ? html` <span class="dim">${oneLine(span.label, 80)}</span>` : ""}</td>
      <td class="num" title=${moment(span.start)}>+${duration(span.start - first)}</td><td class="num">${span.end === null ? "goes on" : duration(span.end - span.start)}</td>
      <td>${span.node === null || span.node === undefined ? "" : html`<${Link} to=${place.with({ node: span.node, view: null, token: null })}>message ${span.node + 1}</${Link}>`}</td></tr>`)}</tbody>
  </table>${spans.length > ROWS && html`<p class="state dim">The first ${ROWS} of ${count(spans.length)}.</p>`}`;
}
