/** What the pointer and the wheel do to a line: zoom and move along its axis. */

import type { Context } from "./context.ts";
import type { LineView } from "./line.ts";

/** Let the user zoom and move a line. */
export function listen(context: Context, line: LineView): void {
  const plot = line.element;
  let from: number | null = null;

  const shown = (): { start: number; scale: number } => {
    const { view } = context.model.state;
    return view === null ? { start: 0, scale: line.width / line.length } : { start: view.x, scale: view.scaleX };
  };
  const show = (start: number, scale: number): void => {
    const seen = line.width / scale;
    const x = Math.min(Math.max(start, Math.min(0, (line.length - seen) / 2)), Math.max(0, line.length - seen));
    context.model.set({ view: { x, y: 0, scaleX: scale, scaleY: 1 } });
  };

  plot.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const { start, scale } = shown();
      const at = Math.max(0, event.clientX - plot.getBoundingClientRect().left - 76);
      const least = line.width / line.length;
      const wanted = Math.min(Math.max(64, least), Math.max(least, scale * Math.exp(-event.deltaY / 400)));
      show(start + at / scale - at / wanted, wanted);
    },
    { passive: false },
  );
  plot.addEventListener("pointerdown", (event) => {
    if (event.button === 0) from = event.clientX;
  });
  plot.addEventListener("pointermove", (event) => {
    if (from === null || event.buttons === 0 || Math.abs(event.clientX - from) < 3) return;
    const { start, scale } = shown();
    show(start - (event.clientX - from) / scale, scale);
    from = event.clientX;
  });
  plot.addEventListener("pointerup", () => (from = null));
  plot.addEventListener("dblclick", () => context.model.set({ view: null }));
}
