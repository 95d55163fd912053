/** The clipboard, also where the browser has its interface for safe pages only. */

import { h } from "./dom.ts";

/** Copy text; returns whether the browser did. */
export async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedByField(text);
  }
}

function copiedByField(text: string): boolean {
  const field = h("textarea", { class: "unseen", readonly: true });
  field.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}
