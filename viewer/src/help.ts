/** The keys, and the window that lists them. */

import { h } from "./dom.ts";

export interface Key {
  readonly keys: readonly string[];
  readonly says: string;
  readonly run: (key: string) => void;
}

/** Run functions for keys that are pressed outside of fields. */
export function listen(keys: readonly Key[]): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]") !== null) return;
    const target = event.target as HTMLElement;
    const typing = target.matches("input:not([type=range]):not([type=checkbox]), select, textarea");
    if (typing && event.key !== "Escape") return;
    const key = keys.find((item) => item.keys.includes(event.key));
    if (key === undefined) return;
    event.preventDefault();
    key.run(event.key);
  });
}

/** Return a window that lists the keys. */
export function helpWindow(keys: readonly Key[], more: readonly (readonly [string, string])[]): HTMLDialogElement {
  const rows = [...keys.map((key) => [key.keys.map(shown).join("  "), key.says] as const), ...more];
  const close = h("button", { class: "close", "aria-label": "Close", click: () => dialog.close() }, "×");
  const list = h(
    "dl",
    {},
    ...rows.flatMap(([names, says]) => [
      h("dt", {}, ...names.split("  ").map((name) => h("kbd", {}, name))),
      h("dd", {}, says),
    ]),
  );
  const licenses = h("a", { href: "-/page/licenses.txt", target: "_blank" }, "Licenses of the libraries in this page");
  const dialog = h(
    "dialog",
    { class: "help", "aria-label": "Keys" },
    h("header", {}, h("h2", {}, "Keys and pointer"), close),
    list,
    h("p", { class: "note" }, licenses),
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}

function shown(key: string): string {
  return { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" }[key] ?? key;
}
