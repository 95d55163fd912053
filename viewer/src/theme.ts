/** Light and dark: as the system says, unless the user chooses. */

const KEY = "tegula-theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");

function chosen(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // the page is in a frame that may keep nothing
  }
}

/** Return whether the page is dark. */
export function isDark(): boolean {
  return document.documentElement.dataset.theme === "dark";
}

/** Follow the system or the user's choice; `changed` is called after each change. */
export function followTheme(changed: () => void): void {
  const apply = (): void => {
    document.documentElement.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
    changed();
  };
  system.addEventListener("change", apply);
  apply();
}

/** Choose the other one. */
export function toggleTheme(changed: () => void): void {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // it lasts as long as the page
  }
  changed();
}
