/** The theme: "light", "dark", or "system". */

import { useEffect } from "./ui.js";

const KEY = "prl.theme";

/** @typedef {"light" | "dark" | "system"} Theme */

/** The choice that was stored. @returns {Theme} */
function storedTheme() {
  try {
    const theme = window.localStorage.getItem(KEY);
    return theme === "light" || theme === "dark" ? theme : "system";
  } catch {
    return "system";
  }
}

/** @param {Theme} theme */
export function storeTheme(theme) {
  try {
    if (theme === "system") window.localStorage.removeItem(KEY);
    else window.localStorage.setItem(KEY, theme);
  } catch {
    // It lasts as long as the page then.
  }
}

/** The theme of an address, else the stored one. @param {string} named @returns {Theme} */
export function themeOf(named) {
  return named === "light" || named === "dark" || named === "system" ? named : storedTheme();
}

/** Show a theme. Charts, which read colours when they draw, hear of it as a "themechange" event of the window. @param {Theme} theme */
export function useTheme(theme) {
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    window.dispatchEvent(new Event("themechange"));
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    const changed = () => window.dispatchEvent(new Event("themechange"));
    system.addEventListener("change", changed);
    return () => system.removeEventListener("change", changed);
  }, [theme]);
}

/** The value of a colour variable of tokens.css in the theme that is shown. @param {string} name e.g. "--c1" */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
