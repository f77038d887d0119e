/** The frame of all pages: place, pulse, theme and keys, the top bar, and the page that the address names. */

import { KeyContext, KeyMap, useKeys } from "./lib/keys.js";
import { currentPlace, NavigationContext, useNavigation, writePlace } from "./lib/location.js";
import { PulseContext, usePolling } from "./lib/pulse.js";
import { themeOf, useTheme } from "./lib/theme.js";
import { html, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./lib/ui.js";
import { Help } from "./parts/help.js";
import { Failed } from "./parts/states.js";
import { TopBar } from "./parts/top.js";

/** A page's module has `default`: a component. Its stylesheet is css/<page>.css. */
/** @type {Record<string, () => Promise<{default: any}>>} */
const MODULES = {
  runs: () => import("./pages/runs/page.js"),
  overview: () => import("./pages/overview/page.js"),
  metrics: () => import("./pages/metrics/page.js"),
  traces: () => import("./pages/traces/page.js"),
  logs: () => import("./pages/logs/page.js"),
  configs: () => import("./pages/configs/page.js"),
  reports: () => import("./pages/reports/page.js"),
};

function App() {
  const [place, setPlace] = useState(currentPlace);
  const [following, setFollowing] = useState(true);
  const go = useCallback((/** @type {import("./lib/place.js").Place} */ next, { replace = false } = {}) => {
    writePlace(next, replace);
    setPlace(next);
  }, []);
  useEffect(() => {
    const back = () => setPlace(currentPlace());
    window.addEventListener("popstate", back);
    return () => window.removeEventListener("popstate", back);
  }, []);
  const theme = themeOf(place.get("theme"));
  useTheme(theme);
  const pulse = usePolling(place.run, place.page, following);
  useViewCommands(pulse, following, place, go);
  const navigation = useMemo(() => ({ place, go }), [place, go]);
  return html`<${NavigationContext.Provider} value=${navigation}>
    <${PulseContext.Provider} value=${pulse}>
      <${Frame} theme=${theme} following=${following} setFollowing=${setFollowing} />
    </${PulseContext.Provider}>
  </${NavigationContext.Provider}>`;
}

/** @param {{theme: import("./lib/theme.js").Theme, following: boolean, setFollowing: (on: boolean) => void}} properties */
function Frame({ theme, following, setFollowing }) {
  const [helping, setHelping] = useState(false);
  useKeys([{ keys: "?", about: "Show the keys", run: () => setHelping(true) }]);
  return html`<a class="skip" href="#content">Skip to content</a>
    <${TopBar} theme=${theme} following=${following} setFollowing=${setFollowing} onHelp=${() => setHelping(true)} />
    <main id="content" tabindex="-1"><${PageOf} /></main>
    ${helping && html`<${Help} onClose=${() => setHelping(false)} />`}`;
}

/** The page of the address. Its module and stylesheet are loaded when it is first shown. */
function PageOf() {
  const { place } = useNavigation();
  const page = place.page;
  const [loaded, setLoaded] = useState(/** @type {Record<string, any>} */ ({}));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  useEffect(() => {
    document.title = place.run === null ? "Runs" : `${place.run.replace(/~[0-9a-f]{8}$/, "")} \u00b7 ${page}`;
    setError(null);
    if (loaded[page]) return undefined;
    let left = false;
    Promise.all([MODULES[page](), stylesheet(page)]).then(
      ([module]) => setLoaded((last) => ({ ...last, [page]: module.default })),
      (failed) => left || setError(failed),
    );
    return () => {
      left = true;
    };
  }, [page, place.run]);
  useLayoutEffect(() => dress(loaded[page] ? page : null), [page, loaded]);
  if (error) return html`<${Failed} error=${error} what="The page could not be loaded." again=${() => window.location.reload()} />`;
  const Page = loaded[page];
  // A page starts anew for another run: nothing of the last one's may stay on it.
  return Page ? html`<${Page} key=${place.run} />` : null;
}

/** The address of a page's stylesheet. @param {string} page */
const sheetOf = (page) => new URL(`../css/${page}.css`, import.meta.url).href;

/** The links to stylesheets in the document. */
const sheets = () => /** @type {NodeListOf<HTMLLinkElement>} */ (document.querySelectorAll("link[rel=stylesheet]"));

/** Let the stylesheet of one page hold, and no other page's: pages share names. @param {string | null} shown null: none is shown yet */
function dress(shown) {
  if (shown === null) return;
  const pages = new Map(Object.keys(MODULES).map((page) => [sheetOf(page), page]));
  // By its media: a disabled link would be fetched anew, and the page be bare meanwhile.
  for (const link of sheets()) if (pages.has(link.href)) link.media = pages.get(link.href) === shown ? "all" : "not all";
}

/** Load the stylesheet of a page, once. @param {string} page @returns {Promise<void>} */
function stylesheet(page) {
  const href = sheetOf(page);
  if ([...sheets()].some((link) => link.href === href)) return Promise.resolve();
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
  return new Promise((done) => {
    link.onload = link.onerror = () => done();
    document.head.append(link);
  });
}

/**
 * Go where an agent asked to be gone: once a command, and none that is older than the page.
 * @param {import("./lib/pulse.js").Pulse} pulse
 * @param {boolean} following
 * @param {import("./lib/place.js").Place} place
 * @param {(place: import("./lib/place.js").Place) => void} go
 */
function useViewCommands(pulse, following, place, go) {
  const done = useRef(/** @type {number | null} */ (null));
  useEffect(() => {
    if (pulse.answered === 0) return;
    const seq = pulse.view?.seq ?? 0;
    const first = done.current === null;
    if (!first && seq <= /** @type {number} */ (done.current)) return;
    done.current = seq;
    if (first || !following || !pulse.view) return;
    const { page, run, highlight, ...parameters } = pulse.view.command;
    go(place.to(page, { run, ...parameters, marks: highlight?.length ? seq : null }));
  }, [pulse, following]);
}

const keys = new KeyMap();
window.addEventListener("keydown", (event) => keys.handle(event));
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
render(html`<${KeyContext.Provider} value=${keys}><${App} /></${KeyContext.Provider}>`, root);
