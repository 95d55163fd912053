/** Colour maps: tables of 256 colours. */

export type Colour = readonly [number, number, number];

const STOPS: Record<string, string> = {
  viridis:
    "440154 481467 482576 453781 404688 39558c 33638d 2d718e 287d8e 238a8d 1f968b 20a386 29af7f 3dbc74 56c667 75d054 95d840 bade28 dde318 fde725",
  magma:
    "000004 07061c 150e38 29115a 3f0f72 56147d 6a1c81 802582 942c80 ab337c c03a76 d6456c e85362 f4695c fa815f fd9b6b feb47b fecd90 fde5a7 fcfdbf",
  plasma:
    "0d0887 2c0594 43039e 5901a5 6e00a8 8305a7 9511a1 a72197 b6308b c5407e d14e72 dd5e66 e76e5b f07f4f f79044 fca338 feb72d fccd25 f7e225 f0f921",
  inferno:
    "000004 08051d 180c3c 2f0a5b 450a69 5c126e 71196e 87216b 9b2964 b1325a c43c4e d74b3f e55c30 f1711f f8870e fca108 fbba1f f6d543 f1ed71 fcffa4",
  cividis:
    "00224e 002c64 0c3470 273e6e 38476c 46516c 535a6d 5f636f 6b6d72 777776 828079 908b78 9c9576 aaa073 b8aa6e c6b667 d4c15f e4ce53 f2da44 fee838",
  turbo:
    "30123b 3a2d79 4146ac 4661d6 4778f0 4391fe 37a8fa 25c0e7 1ad4d0 1ae4b6 2cf09e 4ef97d 71fe5f 96fe44 affa37 c8ef34 dde037 efcd3a faba39 fea130 fc8725 f56918 eb500e dc3b07 ca2a04 b21a01 980e01 7a0403",
  rain: "ffffd9 f8fcc9 f0f9b8 e3f4b2 d4eeb3 c0e6b5 a2dbb8 83cebb 69c5be 4ebbc2 3aaec3 2a9ec1 1d8ebf 1f78b4 2163aa 2350a1 243f99 203089 142670 081d58",
  grey: "000000 ffffff",
  diverging:
    "053061 134b87 2367ac 337fb9 4597c6 66b1d3 8dc6df b2d9ea d1e6f0 e8eff3 f5ede8 fbdcca f8bfa5 f29e80 e2745d cf5044 bc2c34 a31428 840924 67001f",
  cyclic:
    "e2d9e2 cbd2d7 a3beca 80a5c3 6a8bbf 606eb8 5e4eab 5b2f94 4c176b 371143 381139 561546 792050 963350 ad4e51 bd6e5a c78f72 cfaf99 dbcbc6 e2d9e2",
};

/** The names of all colour maps. */
export const NAMES = Object.keys(STOPS);

/** Return the red, green and blue of six hexadecimal digits. */
export function parse(hex: string): Colour {
  const value = Number.parseInt(hex, 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** Return the 256 colours of a map, or of the map reversed, as red, green and blue one after the other. */
export function table(name: string, reversed = false): Uint8Array {
  const stops = (STOPS[name] ?? STOPS.viridis!).split(" ").map(parse);
  if (reversed) stops.reverse();
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
export function gradient(name: string, reversed = false, direction = "to right"): string {
  const colours = table(name, reversed);
  const stops = Array.from({ length: 17 }, (_, at) => {
    const base = 3 * Math.round((at / 16) * 255);
    return `rgb(${colours[base]} ${colours[base + 1]} ${colours[base + 2]})`;
  });
  return `linear-gradient(${direction}, ${stops.join(", ")})`;
}
