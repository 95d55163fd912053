/** Which part of a plane is shown: the element at the left and upper edge, and pixels per element. */

export interface Viewport {
  readonly x: number;
  readonly y: number;
  readonly scaleX: number;
  readonly scaleY: number;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

const MOST_PIXELS = 256; // of one element

/** Show a whole plane; elements are squares unless that would make it a thread. */
export function fit(plane: Size, area: Size): Viewport {
  const across = area.width / plane.width;
  const down = area.height / plane.height;
  const ratio = plane.width / plane.height / (area.width / area.height);
  const square = ratio < 8 && ratio > 1 / 8;
  const scaleX = Math.min(square ? Math.min(across, down) : across, MOST_PIXELS);
  const scaleY = Math.min(square ? Math.min(across, down) : down, MOST_PIXELS);
  return {
    x: (plane.width - area.width / scaleX) / 2,
    y: (plane.height - area.height / scaleY) / 2,
    scaleX,
    scaleY,
  };
}

/** Zoom by a factor around a point of the area. */
export function zoom(view: Viewport, factor: number, at: readonly [number, number], plane: Size, area: Size): Viewport {
  const whole = fit(plane, area);
  const least = Math.min(1, 0.5 * Math.min(whole.scaleX / view.scaleX, whole.scaleY / view.scaleY));
  const most = Math.max(1, MOST_PIXELS / Math.max(view.scaleX, view.scaleY));
  const by = Math.min(most, Math.max(least, factor));
  const scaleX = view.scaleX * by;
  const scaleY = view.scaleY * by;
  const moved = {
    x: view.x + at[0] / view.scaleX - at[0] / scaleX,
    y: view.y + at[1] / view.scaleY - at[1] / scaleY,
    scaleX,
    scaleY,
  };
  return held(moved, plane, area);
}

/** Move what is shown by pixels. */
export function pan(view: Viewport, right: number, down: number, plane: Size, area: Size): Viewport {
  return held({ ...view, x: view.x - right / view.scaleX, y: view.y - down / view.scaleY }, plane, area);
}

/** Keep a part of the plane in sight. */
function held(view: Viewport, plane: Size, area: Size): Viewport {
  const clamp = (start: number, length: number, seen: number): number => {
    const middle = Math.min(Math.max(start + seen / 2, 0), length);
    return middle - seen / 2;
  };
  return {
    ...view,
    x: clamp(view.x, plane.width, area.width / view.scaleX),
    y: clamp(view.y, plane.height, area.height / view.scaleY),
  };
}

/** Return the first and past-the-last element that are shown along an axis. */
export function seen(start: number, scale: number, pixels: number, length: number): [number, number] {
  const first = Math.max(0, Math.floor(start));
  const stop = Math.min(length, Math.ceil(start + pixels / scale));
  return [Math.min(first, length), Math.max(stop, Math.min(first, length))];
}
