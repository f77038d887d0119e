/** Going anywhere by typing: a run, a metric of the run, an episode, a page. `/` is its key where a page has no search. */

import { runPath } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { useRested } from "../lib/hooks.js";
import { useKeys } from "../lib/keys.js";
import { useNavigation } from "../lib/location.js";
import { html, useRef, useState } from "../lib/ui.js";
import { Search } from "./controls.js";
import { destinations } from "./destinations.js";

export function GoTo() {
  const { place, go } = useNavigation();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const wanted = useRested(text.trim(), 120);
  const runs = useData(text ? "runs" : null).data;
  const keys = useData(text && place.run !== null ? runPath(place.run, "metrics", "keys") : null).data;
  useKeys([{ keys: "/", about: "Search", run: () => input.current?.focus() }]);
  const found = wanted ? destinations(wanted, place, runs?.rows ?? [], keys?.series ?? []) : [];
  const leave = () => {
    setText("");
    setAt(0);
    input.current?.blur();
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowDown") setAt(Math.min(found.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter" && found[at]) {
      go(found[at].place);
      leave();
    } else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  };
  return html`<div class="goto hide-s" onKeyDown=${key}>
    <${Search} label="Go to run, metric, episode" value=${text} input=${input} hint=${html`<kbd>/</kbd>`} onChange=${(/** @type {string} */ next) => (setText(next), setAt(0))} />
    ${text &&
    html`<ul class="panel" aria-label="Destinations">
      ${found.map(
        (one, index) => html`<li key=${one.place.href}><a href=${one.place.href} class=${index === at ? "on" : ""} onClick=${(/** @type {MouseEvent} */ event) => (event.preventDefault(), go(one.place), leave())}>
          <span class="dim">${one.kind}</span> ${one.label}</a></li>`,
      )}
      ${found.length === 0 && html`<li class="dim">Nothing of that name</li>`}
    </ul>`}
  </div>`;
}
