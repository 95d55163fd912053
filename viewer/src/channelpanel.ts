/** The channels of an image: each switched on and off, together in their colours or one by one. */

import type { Context } from "./context.ts";
import { h } from "./dom.ts";
import { isComposite, shownChannels } from "./layers.ts";
import type { Source } from "./source.ts";

/** Return the controls of the channels of an image; none if it does not say how they are shown. */
export function channelList(context: Context, source: Source): HTMLElement[] {
  const { model } = context;
  const { channels } = source;
  if (channels === null || model.state.axes?.includes(channels.axis)) return [];
  const together = isComposite(source, model.state);
  const shown = shownChannels(source, model.state);
  const switched = (at: number): void => {
    const now = shownChannels(source, model.state);
    model.set({
      channels: now.includes(at) ? now.filter((other) => other !== at) : [...now, at].sort((a, b) => a - b),
    });
  };
  const rows = channels.list.map(({ name, colour }, at) =>
    h(
      "label",
      { class: "channel" },
      h("input", { type: "checkbox", checked: shown.includes(at), change: () => switched(at) }),
      h("i", { style: `background:rgb(${colour.join(" ")})`, "aria-hidden": "true" }),
      name,
    ),
  );
  const box = h("input", {
    type: "checkbox",
    checked: together,
    change: () => model.set({ composite: !model.state.composite }),
  });
  return [h("label", { class: "check" }, box, " channels together, in their colours"), ...(together ? rows : [])];
}
