/** Sets the theme before the first paint: `?theme=` in the address, then the stored choice, then the system's. */
(() => {
  let theme = new URLSearchParams(window.location.search).get("theme");
  try {
    theme ??= window.localStorage.getItem("prl.theme");
  } catch {
    // Storage may be forbidden; the system's theme it is.
  }
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
})();
