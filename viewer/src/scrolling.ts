/** The rows that a window shows of tables that are higher than browsers let an element be. */

export const ROW = 26;
const MOST_PIXELS = 8_000_000;

export interface Scroll {
  /** The row at the top; a part of it may be scrolled away. */
  readonly top: number;
}

/** Return the height of what is scrolled. */
export function heightOf(total: number, seen: number): number {
  return Math.max(seen, Math.min(total * ROW, MOST_PIXELS));
}

/** Return the largest row at the top. */
export function lastTop(total: number, seen: number): number {
  return Math.max(0, total - seen / ROW);
}

/** Return the row at the top of the window for a position of the scroll bar. */
export function topOf(scrolled: number, total: number, seen: number): number {
  const most = heightOf(total, seen) - seen;
  return most <= 0 ? 0 : Math.min(1, Math.max(0, scrolled / most)) * lastTop(total, seen);
}

/** Return the position of the scroll bar for a row at the top. */
export function scrolledTo(top: number, total: number, seen: number): number {
  const last = lastTop(total, seen);
  return last <= 0 ? 0 : (Math.min(last, Math.max(0, top)) / last) * (heightOf(total, seen) - seen);
}

/** Return the blocks of rows that a window shows. */
export function blocksOf(top: number, seen: number, total: number, block: number): number[] {
  const first = Math.floor(Math.max(0, top) / block);
  const stop = Math.ceil(Math.min(total, top + seen / ROW + 1) / block);
  return Array.from({ length: Math.max(0, stop - first) }, (_, at) => first + at);
}
