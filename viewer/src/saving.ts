/** Files of what is drawn: figures in SVG, and in PNG at twice their size. */

import { h } from "./dom.ts";
import type { Figure } from "./figure.ts";

const ENLARGED = 2;

function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Save a figure in one of both formats. */
export async function saveFigure(figure: Figure, name: string, format: "svg" | "png"): Promise<void> {
  const text = new XMLSerializer().serializeToString(figure.element);
  if (format === "svg") {
    save(new Blob([text], { type: "image/svg+xml" }), `${name}.svg`);
    return;
  }
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const [width, height] = [figure.width * ENLARGED, figure.height * ENLARGED];
  const canvas = h("canvas", { width, height });
  canvas.getContext("2d")!.drawImage(image, 0, 0, width, height);
  canvas.toBlob((blob) => blob !== null && save(blob, `${name}.png`));
}
