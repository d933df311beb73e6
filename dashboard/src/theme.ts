// Light, dark or the system's setting. A separate script that runs before the first paint, so that the page does not
// flash in the wrong theme.

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
