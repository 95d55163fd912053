/** The window with a program that reads what is shown. */

import { copied } from "./clipboard.ts";
import { h, replace } from "./dom.ts";
import { LIBRARIES, type Library } from "./program.ts";

/** Show a program for each library, to copy. */
export function showCode(write: (library: Library) => string): void {
  const text = h("code", {});
  const say = h("span", { class: "note", role: "status" });
  const choose = (library: Library): void => {
    text.textContent = write(library);
    say.textContent = "";
    for (const button of bar.children) button.setAttribute("aria-selected", String(button.textContent === library));
  };
  const bar = h("div", { class: "tabs", role: "tablist" });
  replace(bar, ...LIBRARIES.map((library) => h("button", { role: "tab", click: () => choose(library) }, library)));
  const close = h("button", { class: "close", "aria-label": "Close", click: () => dialog.close() }, "×");
  const copy = async (): Promise<void> => {
    const done = await copied(text.textContent ?? "");
    say.textContent = done ? "copied" : "the browser did not allow it: select the text and copy it";
  };
  const dialog = h(
    "dialog",
    { class: "help program", "aria-label": "Code", close: () => dialog.remove() },
    h("header", {}, h("h2", {}, "Read what is shown in Python"), close),
    bar,
    h("pre", {}, text),
    h("div", { class: "line-of" }, say, h("button", { click: () => void copy() }, "Copy")),
  );
  document.body.append(dialog);
  choose(LIBRARIES[0]);
  dialog.showModal();
}
