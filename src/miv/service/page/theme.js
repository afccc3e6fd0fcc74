"use strict";
/* Light, dark or as the system says. Not a module: it runs before the first paint, so that nothing flashes. */
(() => {
  const KEY = "miv-theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem(KEY); } catch { /* storage is off: the system's choice holds */ }
  const isDark = () => (chosen ? chosen === "dark" : dark.matches);
  const apply = () => {
    document.documentElement.classList.toggle("dark", isDark());
    document.documentElement.classList.toggle("light", !isDark());
    const button = document.getElementById("theme");
    if (button) {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
    }
  };
  apply();
  dark.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      chosen = isDark() ? "light" : "dark";
      try { localStorage.setItem(KEY, chosen); } catch { /* it holds until the page is closed */ }
      apply();
    });
  });
})();
