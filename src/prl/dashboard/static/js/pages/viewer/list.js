/** The list that the episode is from, beside it. */

import { count, fixed } from "../../lib/format.js";
import { useScrollBox } from "../../lib/hooks.js";
import { useNavigation } from "../../lib/location.js";
import { html, useEffect } from "../../lib/ui.js";
import { visibleRows } from "../../lib/windowing.js";
import { Icon } from "../../parts/icons.js";
import { Link } from "../../parts/link.js";
import { oneLine } from "./visible.js";
import { episodePlace, listPlace } from "./places.js";

const ROW = 30;

/** @param {{episodes: import("../traces/episodes.js").Episodes, at: number | null, wanted: string, onBeside: (by: 1 | -1) => void}} properties */
export function EpisodeList({ episodes, at, wanted, onBeside }) {
  const { place } = useNavigation();
  const { rows, need, fresh, again } = episodes;
  const { ref, height, top } = /** @type {ReturnType<typeof useScrollBox<HTMLDivElement>>} */ (useScrollBox());
  const { first, last, before, after } = visibleRows(rows.length, ROW, top, height || 600, 6);
  const hint = at ?? place.number("row");
  useEffect(() => need(first, last), [first, last, rows.length]);
  useEffect(() => {
    const box = ref.current;
    if (!box || hint === null) return;
    const y = hint * ROW;
    if (y < box.scrollTop || y + ROW > box.scrollTop + box.clientHeight) box.scrollTop = Math.max(0, y - box.clientHeight / 3);
  }, [hint, rows.length > 0]);
  return html`<aside class="el" aria-label="Episodes">
    <div class="row eh"><${Link} to=${listPlace(place)}>${place.get("hit") ? "All hits" : "All episodes"}</${Link}>
      ${fresh > 0 && html`<button type="button" class="lnk small" onClick=${again}>${count(fresh)} new</button>`}
      <span class="grow"></span>
      <${Beside} onBeside=${onBeside} />
    </div>
    <div class="els" ref=${ref} tabindex="-1">
      <ol style=${{ paddingTop: `${before}px`, paddingBottom: `${after}px` }}>
        ${rows.slice(first, last).map((row, offset) => {
          const index = first + offset;
          if (row === null) return html`<li key=${`hole ${index}`}><span class="waiting"></span></li>`;
          const here = row.ref === wanted || row.id === wanted;
          return html`<li key=${row.line} class=${here ? "sel" : ""}><${Link} class="tn" replace to=${episodePlace(place, row.ref, index)} aria-current=${here ? "true" : undefined}>${count(row.line)}</${Link}>
            <span class="dim clip">${oneLine(row.env ?? "", 40)}</span>
            <span class=${row.note?.kind === "error" ? "bad" : "warn"} title=${row.note?.text}>${row.note?.kind && html`<${Icon} name=${row.note.kind === "error" ? "bad" : "warn"} size=${14} /><span class="vh">${row.note.text}</span>`}</span>
            <span class="num">${row.reward === null ? html`<span class="faint">n/a</span>` : fixed(row.reward, 3)}</span></li>`;
        })}
      </ol>
    </div>
  </aside>`;
}

/** @param {{onBeside: (by: 1 | -1) => void, class?: string}} properties */
export function Beside({ onBeside, class: name = "" }) {
  return html`<span class="nowrap ${name}"><button type="button" class="btn quiet" title="Episode before (k)" aria-label="Episode before" onClick=${() => onBeside(-1)}><${Icon} name="up" /></button>
    <button type="button" class="btn quiet" title="Next episode (j)" aria-label="Next episode" onClick=${() => onBeside(1)}><${Icon} name="down" /></button></span>`;
}
