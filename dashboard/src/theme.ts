// Light, dark or as the system says. A script of its own, run before the first paint, so that nothing flashes.

export type Theme = "system" | "light" | "dark";

const KEPT_AS = "hotseat.theme";

export function chosenTheme(): Theme {
  const kept = localStorage.getItem(KEPT_AS);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function applyTheme(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function chooseTheme(theme: Theme): void {
  localStorage.setItem(KEPT_AS, theme);
  applyTheme(theme);
}

applyTheme(chosenTheme());
