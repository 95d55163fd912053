/** Numbers, sizes and shapes as text. */

/** Write a number with as many digits as say something. */
export function number(value: number, digits = 6): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return grouped(value);
  const size = Math.abs(value);
  const text = size >= 1e-4 && size < 1e9 ? String(Number(value.toPrecision(digits))) : value.toExponential(digits - 2);
  const tidy = text.replace(/\.?0+e/, "e").replace("e+", "e");
  return tidy.replace("-", "−");
}

/** Write an integer with thin spaces between groups of three digits. */
export function grouped(value: number | bigint): string {
  const text = String(value < 0 ? -value : value).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
  return value < 0 ? `−${text}` : text;
}

/** Write a number of things that have a regular plural. */
export function counted(value: number, one: string): string {
  return `${grouped(value)} ${one}${value === 1 ? "" : "s"}`;
}

/** Return the number that `grouped` has written. */
export function ungrouped(text: number | string): number {
  return Number(String(text).replaceAll("\u202f", "").replace("−", "-"));
}

/** Write a number of bytes. */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  let value = count;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : Number(value.toPrecision(3))} ${units[at]}`;
}

/** Write a shape as 3 × 4 × 5. */
export function shape(lengths: readonly number[]): string {
  return lengths.length === 0 ? "scalar" : lengths.map((length) => grouped(length)).join(" × ");
}

/** Multiply the lengths of a shape. */
export function product(lengths: readonly number[]): number {
  return lengths.reduce((total, length) => total * length, 1);
}
