/** The top bar: where one is, the pages of the run, going anywhere by typing, freshness, theme, keys. */

import { age, moment } from "../lib/format.js";
import { useNow } from "../lib/hooks.js";
import { useKeys } from "../lib/keys.js";
import { useNavigation } from "../lib/location.js";
import { MISSED, usePulse } from "../lib/pulse.js";
import { storeTheme } from "../lib/theme.js";
import { html } from "../lib/ui.js";
import { GoTo } from "./goto.js";
import { Icon } from "./icons.js";
import { Link } from "./link.js";

/** @type {readonly {page: string, label: string, key: string}[]} */
const TABS = [
  { page: "overview", label: "Overview", key: "g o" },
  { page: "metrics", label: "Metrics", key: "g m" },
  { page: "traces", label: "Traces", key: "g t" },
  { page: "logs", label: "Logs", key: "g l" },
  { page: "configs", label: "Configs", key: "g c" },
  { page: "reports", label: "Reports", key: "g s" },
];

/**
 * @param {{theme: import("../lib/theme.js").Theme, following: boolean, setFollowing: (on: boolean) => void, onHelp: () => void}} properties
 */
export function TopBar({ theme, following, setFollowing, onHelp }) {
  const { place, go } = useNavigation();
  useKeys([
    { keys: "g r", about: "Go to the list of runs", run: () => go(place.to("runs", { run: null })) },
    ...(place.run === null ? [] : TABS.map(({ page, label, key }) => ({ keys: key, about: `Go to ${label.toLowerCase()}`, run: () => go(place.to(page)) }))),
  ]);
  return html`<header class="top">
    <nav class="crumb" aria-label="Run">
      ${place.run === null
        ? html`<b>Runs</b>`
        : html`<${Link} to=${place.to("runs", { run: null })}>Runs</${Link}><span class="sep" aria-hidden="true">/</span><b title=${place.run}>${place.run.replace(/~[0-9a-f]{8}$/, "")}</b>`}
    </nav>
    ${place.run !== null &&
    html`<nav class="tabs" aria-label="Pages of the run">
      ${TABS.map(({ page, label }) => html`<${Link} key=${page} to=${place.to(page)} aria-current=${place.page === page ? "page" : undefined}>${label}</${Link}>`)}
    </nav>`}
    <div class="end">
      <${GoTo} />
      <${Freshness} />
      <button type="button" class="btn quiet hide-s" aria-pressed=${String(following)} title="Whether agents may move this page (POST /api/view)" onClick=${() => setFollowing(!following)}>
        ${following ? "Following" : "Not following"}
      </button>
      <${ThemeChoice} theme=${theme} />
      <button type="button" class="btn quiet" title="Keys" aria-label="Show the keys" onClick=${onHelp}><kbd>?</kbd></button>
    </div>
  </header>`;
}

/** How old what is shown is. Amber, with a warning, after three missed answers. */
function Freshness() {
  const pulse = usePulse();
  const now = useNow(1);
  if (pulse.answered === 0 && pulse.error === null) return html`<span class="fresh dim"><${Icon} name="live" />Connecting</span>`;
  const stale = pulse.missed >= MISSED;
  const since = pulse.answered === 0 ? "no answer yet" : `${age(now - pulse.answered)} ago`;
  return html`<span class="fresh ${stale ? "warn" : ""}" title=${pulse.error?.message ?? `The server last answered at ${moment(pulse.answered)}`}>
    <${Icon} name=${stale ? "warn" : "live"} />${stale ? "Stale" : "Live"}, ${since}
  </span>`;
}

/** @param {{theme: import("../lib/theme.js").Theme}} properties */
function ThemeChoice({ theme }) {
  const { place, go } = useNavigation();
  const choose = (/** @type {import("../lib/theme.js").Theme} */ chosen) => {
    storeTheme(chosen);
    // An address that names a theme goes on to name the chosen one.
    go(place.with({ theme: place.get("theme") ? chosen : null }), { replace: true });
  };
  return html`<div class="seg icons" role="group" aria-label="Theme">
    ${/** @type {const} */ (["system", "light", "dark"]).map(
      (name) => html`<button type="button" key=${name} aria-pressed=${String(theme === name)} aria-label="${name} theme" title="${name} theme" onClick=${() => choose(name)}><${Icon} name=${name} /></button>`,
    )}
  </div>`;
}
