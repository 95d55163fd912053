/** What pointers, wheel and keys do to an image. */

import type { Context } from "./context.ts";
import type { ImageView } from "./image.ts";
import { type Viewport, pan, zoom } from "./viewport.ts";

interface Point {
  readonly x: number;
  readonly y: number;
}

/** Let the user zoom, move and mark an image; `pointed` is told where the pointer is, in pixels of the canvas. */
export function listen(
  context: Context,
  image: Pick<ImageView, "canvas" | "sizes" | "view">,
  pointed: (at: Point | null) => void,
  mark: (at: Point) => void,
): void {
  const { canvas } = image;
  const pointers = new Map<number, Point>();
  let moved = false;

  const place = (event: MouseEvent): Point => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const show = (view: Viewport): void => context.model.set({ view });
  const zoomBy = (factor: number, at: Point): void => {
    const { plane, area } = image.sizes();
    show(zoom(image.view(), factor, [at.x, at.y], plane, area));
  };
  const panBy = (right: number, down: number): void => {
    const { plane, area } = image.sizes();
    show(pan(image.view(), right, down, plane, area));
  };

  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
      zoomBy(Math.exp((-event.deltaY * lines) / 400), place(event));
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place(event));
    if (pointers.size === 1) moved = false;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    const now = place(event);
    pointed(now);
    if (before === undefined) return;
    if (!moved && Math.hypot(now.x - before.x, now.y - before.y) < 4) return;
    moved = true;
    canvas.classList.add("moving");
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    pointers.set(event.pointerId, now);
    if (other === undefined) {
      panBy(now.x - before.x, now.y - before.y);
    } else {
      const apart = (point: Point): number => Math.hypot(point.x - other.x, point.y - other.y);
      zoomBy(apart(now) / Math.max(1, apart(before)), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
    }
  });
  const released = (event: PointerEvent): void => {
    const was = pointers.delete(event.pointerId);
    canvas.classList.remove("moving");
    if (was && !moved && event.type === "pointerup") mark(place(event));
  };
  canvas.addEventListener("pointerup", released);
  canvas.addEventListener("pointercancel", released);
  canvas.addEventListener("pointerleave", () => pointed(null));
  canvas.addEventListener("dblclick", () => context.model.set({ view: null }));
}

/** Zoom around the middle of the image. */
export function zoomMiddle(context: Context, image: ImageView, factor: number): void {
  const { plane, area } = image.sizes();
  context.model.set({ view: zoom(image.view(), factor, [area.width / 2, area.height / 2], plane, area) });
}
