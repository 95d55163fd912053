/** Colour maps: tables of 256 colours. */

export type Colour = readonly [number, number, number];

const STOPS: Record<string, string> = {
  viridis:
    "440154 481467 482576 453781 404688 39558c 33638d 2d718e 287d8e 238a8d 1f968b 20a386 29af7f 3dbc74 56c667 75d054 95d840 bade28 dde318 fde725",
  magma:
    "000004 07061c 150e38 29115a 3f0f72 56147d 6a1c81 802582 942c80 ab337c c03a76 d6456c e85362 f4695c fa815f fd9b6b feb47b fecd90 fde5a7 fcfdbf",
  grey: "000000 ffffff",
  diverging:
    "053061 134b87 2367ac 337fb9 4597c6 66b1d3 8dc6df b2d9ea d1e6f0 e8eff3 f5ede8 fbdcca f8bfa5 f29e80 e2745d cf5044 bc2c34 a31428 840924 67001f",
};

/** The names of all colour maps. */
export const NAMES = Object.keys(STOPS);

function parse(hex: string): Colour {
  const value = Number.parseInt(hex, 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** Return the 256 colours of a map, as red, green and blue one after the other. */
export function table(name: string): Uint8Array {
  const stops = (STOPS[name] ?? STOPS.viridis!).split(" ").map(parse);
  const colours = new Uint8Array(3 * 256);
  for (let at = 0; at < 256; at++) {
    const place = (at / 255) * (stops.length - 1);
    const below = Math.min(Math.floor(place), stops.length - 2);
    for (let channel = 0; channel < 3; channel++) {
      const low = stops[below]![channel]!;
      colours[3 * at + channel] = Math.round(low + (stops[below + 1]![channel]! - low) * (place - below));
    }
  }
  return colours;
}

/** Return which of the 256 colours stands for a value between limits. */
export function level(value: number, low: number, high: number): number {
  if (!(high > low)) return value > low ? 255 : value < low ? 0 : 127;
  const at = Math.floor(((value - low) / (high - low)) * 256);
  return at < 0 ? 0 : at > 255 ? 255 : at;
}

/** Return a gradient of a colour map for style sheets. */
export function gradient(name: string, direction = "to right"): string {
  const colours = table(name);
  const stops = Array.from({ length: 17 }, (_, at) => {
    const base = 3 * Math.round((at / 16) * 255);
    return `rgb(${colours[base]} ${colours[base + 1]} ${colours[base + 2]})`;
  });
  return `linear-gradient(${direction}, ${stops.join(", ")})`;
}
