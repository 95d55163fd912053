import assert from "node:assert/strict";
import { test } from "node:test";
import { Cache, type Chunk, Loader, reason } from "../src/chunks.ts";
import { NAMES, level, table } from "../src/colours.ts";
import { envelope, extent, spaced, take } from "../src/envelope.ts";
import { centred, histogram, robust, sample } from "../src/limits.ts";
import { fragment, parse } from "../src/link.ts";
import { paint } from "../src/painting.ts";
import { FAILED, MISSING, VALUE, chunksAlong, draw, elements, fail, raster } from "../src/raster.ts";
import { ROW, blocksOf, heightOf, lastTop, scrolledTo, topOf } from "../src/scrolling.ts";
import { INITIAL } from "../src/state.ts";
import { label, nice, positions, ticks } from "../src/ticks.ts";
import { fit, pan, seen, zoom } from "../src/viewport.ts";

const chunkOf = (values: number[], shape: number[]): Chunk => {
  const stride = shape.map((_, axis) => shape.slice(axis + 1).reduce((total, length) => total * length, 1));
  return { data: Float64Array.from(values), shape, stride, bytes: 8 * values.length };
};

test("each pixel shows the element below its middle, whatever the scale", () => {
  assert.deepEqual([...elements(0, 2, 6, 2)], [0, 0, 1, 1, -1, -1]);
  assert.deepEqual([...elements(-1, 1, 4, 2)], [-1, 0, 1, -1]);
  assert.deepEqual([...elements(0, 0.5, 3, 5)], [1, 3, -1]);
  assert.deepEqual([...elements(0, 1, 4, 4, 1, 4, true)], [3, 2, 1, 0]);
  assert.deepEqual([...elements(0, 0.5, 4, 4, 2, 8)], [0, 1, 2, 3]); // a level half as large
  assert.deepEqual(chunksAlong(elements(1, 1, 6, 7), 3), [0, 1, 2]);
});

test("chunks are drawn where they belong, in any order of axes", () => {
  const into = raster(4, 3);
  const [rows, columns] = [elements(0, 1, 3, 3), elements(0, 1, 4, 4)];
  const piece = { origin: [0, 2], size: [3, 2], axes: [1, 0] } as const;
  draw(into, rows, columns, chunkOf([0, 1, 2, 10, NaN, 12], [2, 3]), piece, 0, (stored) => stored * 2);
  assert.deepEqual([...into.values].slice(0, 4), [0, 0, 0, 20]);
  assert.deepEqual([...into.states], [0, 0, VALUE, VALUE, 0, 0, VALUE, MISSING, 0, 0, VALUE, VALUE]);
  assert.equal(into.values[2 * 4 + 3], 24);
  fail(into, rows, columns, piece);
  assert.equal(into.states.filter((state) => state === FAILED).length, 6);
});

test("colours: limits are the ends of the map, and what is not there is transparent", () => {
  const into = raster(4, 1);
  into.values.set([0, 5, 10, 0]);
  into.states.set([VALUE, VALUE, MISSING, 0]);
  const pixels = new Uint8ClampedArray(16);
  const colours = table("viridis");
  paint(into, pixels, colours, { low: 0, high: 5 }, false);
  assert.deepEqual([...pixels.slice(0, 4)], [68, 1, 84, 255]);
  assert.deepEqual([...pixels.slice(4, 8)], [253, 231, 37, 255]);
  assert.equal(pixels[8], pixels[9]);
  assert.equal(pixels[15], 0);
  assert.deepEqual(
    [-1, 0, 2.5, 5, 9].map((value) => level(value, 0, 5)),
    [0, 0, 128, 255, 255],
  );
  for (const name of NAMES) assert.equal(table(name).length, 768);
});

test("limits leave outliers out, and are centred for diverging colours", () => {
  const values = Float64Array.from({ length: 1001 }, (_, at) => at);
  values[3] = 1e9;
  values[4] = NaN;
  assert.deepEqual(robust(values), { low: 12, high: 991 });
  assert.equal(robust(Float64Array.of(NaN)), null);
  assert.deepEqual(robust(Float64Array.from([...new Array<number>(999).fill(0), 7])), { low: 0, high: 7 });
  assert.deepEqual(centred({ low: -1, high: 3 }), { low: -3, high: 3 });
  assert.deepEqual(centred({ low: 1, high: 3 }), { low: 1, high: 3 });
  const found = histogram(
    values.map((value) => (value === 1e9 ? NaN : value)),
    10,
  )!;
  assert.equal(
    found.counts.reduce((total, count) => total + count),
    999,
  );
  assert.deepEqual([found.low, found.high], [0, 1000]);
  assert.equal(sample(values, (at) => at % 2 === 0, 100).length < 101, true);
});

test("zooming keeps the element below the pointer, and the plane in sight", () => {
  const [plane, area] = [
    { width: 400, height: 200 },
    { width: 800, height: 600 },
  ];
  let view = fit(plane, area);
  assert.deepEqual(view, { x: 0, y: -50, scaleX: 2, scaleY: 2 });
  const under = view.x + 300 / view.scaleX;
  for (let times = 0; times < 8; times++) view = zoom(view, 1.3, [300, 300], plane, area);
  assert.ok(Math.abs(view.x + 300 / view.scaleX - under) < 1e-9);
  for (let times = 0; times < 40; times++) view = pan(view, -500, -500, plane, area);
  assert.ok(view.x < plane.width && view.y < plane.height);
  for (let times = 0; times < 90; times++) view = zoom(view, 0.5, [0, 0], plane, area);
  assert.ok(view.scaleX >= 1);
  assert.deepEqual(seen(-3.5, 2, 20, 5), [0, 5]);
  assert.deepEqual(seen(2.5, 2, 3, 100), [2, 4]);
  assert.deepEqual(seen(200, 2, 3, 100), [100, 100]);
});

test("marks of an axis lie where its coordinates say", () => {
  const values = Float64Array.from({ length: 181 }, (_, at) => 90 - at);
  const lat = { ...positions("lat"), values };
  const found = ticks(lat, 0, 181, 181, 5);
  assert.deepEqual(
    found.map((tick) => tick.label),
    ["−50", "0", "50"],
  );
  for (const tick of found) assert.equal(90 - (tick.at - 0.5), Number(tick.label.replace("−", "-")));
  assert.deepEqual(
    ticks(positions("x"), 0, 10, 10, 5).map((tick) => tick.at),
    [0.5, 2.5, 4.5, 6.5, 8.5],
  );
  assert.deepEqual(ticks(positions("x"), 20, 30, 10, 5), []);
  const names = { ...positions("x"), labels: ["a", "b", "c"] };
  assert.deepEqual(
    ticks(names, 0, 3, 3, 9).map((tick) => tick.label),
    ["a", "b", "c"],
  );
  const uneven = { ...positions("x"), values: Float64Array.of(0, 10, 5) };
  assert.deepEqual(
    ticks(uneven, 0, 3, 3, 9).map((tick) => tick.label),
    ["0", "10", "5"],
  );
  assert.deepEqual([0.3, 1, 1.1, 2.1, 3, 7].map(nice), [0.5, 1, 2, 2.5, 5, 10]);
  assert.equal(label(lat, 0), "90");
});

test("a line shows the least and the greatest value of each pixel", () => {
  const data = Float64Array.from({ length: 1000 }, (_, at) => (at % 10 === 3 ? NaN : Math.sin(at)));
  const into = envelope(100, 0.1, 50, 1000);
  take(into, { data, shape: [1000], stride: [1], bytes: 0 }, 1, 0, 0, 1000, (value) => value);
  for (let column = 0; column < 50; column++) {
    const inside = [...data.slice(100 + column * 10, 110 + column * 10)].filter((value) => value === value);
    assert.equal(into.low[column], Math.min(...inside));
    assert.equal(into.high[column], Math.max(...inside));
  }
  assert.ok(extent(into)!.high <= 1);
  const each = envelope(2, 1, 3, 10);
  take(each, chunkOf([5, 6, 7, 8, 9, 10], [6]), 1, 0, 0, 6, (value) => value);
  assert.deepEqual([...each.low], [7, 8, 9]);
  assert.deepEqual(spaced(0, 10, 4), { chunks: [0, 3, 6, 9], step: 3 });
});

test("a link restores the view, and nonsense is left out", () => {
  const state = {
    ...INITIAL,
    path: "a b/c?d/é#",
    tab: "image",
    axes: [2, 0],
    index: [3, 0, 9],
    marked: true,
    along: 1,
    map: "magma",
    view: { x: -3.25, y: 1e6, scaleX: 0.125, scaleY: 4 },
    limits: { low: -1.5e-7, high: 3 },
    fill: false,
    row: 99_999_999,
  } as const;
  assert.deepEqual(parse(fragment(state)), state);
  assert.deepEqual(parse(fragment(INITIAL)), INITIAL);
  assert.deepEqual(parse("#/a?tab=x&axes=1,1&at=-1&view=1,2,0,4&map=pink&limits=a,b&row=1.5&fill=7"), {
    ...INITIAL,
    path: "a",
  });
  assert.equal(parse("#/%").path, "%");
});

test("every row of a table that is higher than browsers allow can be reached", () => {
  const [total, high] = [10 ** 8, 600];
  assert.ok(heightOf(total, high) <= 8_000_000);
  assert.equal(topOf(0, total, high), 0);
  assert.equal(topOf(heightOf(total, high) - high, total, high), lastTop(total, high));
  for (const top of [0, 1, 77, 12_345_678, 99_999_000])
    assert.ok(Math.abs(topOf(scrolledTo(top, total, high), total, high) - top) < 1e-3);
  assert.deepEqual(blocksOf(199.5, ROW * 2, 10 ** 8, 200), [0, 1]);
  assert.deepEqual(blocksOf(lastTop(total, high), high, total, 200), [499_999]);
  assert.deepEqual(blocksOf(0, high, 0, 200), []);
});

test("the cache keeps what was used last, within its budget", () => {
  const cache = new Cache(100);
  for (const name of ["a", "b", "c"]) cache.set(name, chunkOf([1, 2, 3, 4, 5], [5]));
  assert.equal(cache.get("a"), undefined);
  cache.get("b");
  cache.set("d", chunkOf([1, 2, 3, 4, 5], [5]));
  assert.equal(cache.get("c"), undefined);
  assert.ok(cache.get("b") !== undefined && cache.bytes <= 100);
  cache.set("large", chunkOf(new Array<number>(50).fill(0), [50]));
  assert.ok(cache.get("large") !== undefined);
});

test("only wanted chunks are read, a few at a time; others are cancelled", async () => {
  const loader = new Loader(1000, 2);
  const waiting = new Map<string, (chunk: Chunk) => void>();
  const cancelled: string[] = [];
  const request = (key: string) => ({
    key,
    load: (signal: AbortSignal) =>
      new Promise<Chunk>((resolve, reject) => {
        waiting.set(key, resolve);
        signal.addEventListener("abort", () => {
          cancelled.push(key);
          reject(new Error("aborted"));
        });
      }),
  });
  const arrived: string[] = [];
  const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));
  loader.want("image", ["a", "b", "c"].map(request), (key) => arrived.push(key));
  assert.deepEqual([...waiting.keys()], ["a", "b"]);
  waiting.get("a")!(chunkOf([1], [1]));
  await turn();
  assert.deepEqual([...waiting.keys()], ["a", "b", "c"]);
  assert.deepEqual(loader.progress("image"), { wanted: 3, done: 1, errors: [] });
  loader.want("image", ["c", "d"].map(request), (key) => arrived.push(key));
  assert.deepEqual(cancelled, ["b"]);
  await turn();
  waiting.get("c")!(chunkOf([1], [1]));
  waiting.get("d")!(chunkOf([1], [1]));
  await turn();
  assert.deepEqual(arrived, ["a", "c", "d"]);
  assert.deepEqual(loader.progress("image"), { wanted: 2, done: 2, errors: [] });
});

test("a chunk that fails is named, and read again when asked", async () => {
  const loader = new Loader(1000, 2);
  let works = false;
  const request = {
    key: "a",
    load: async () => (works ? chunkOf([1], [1]) : Promise.reject(new Error("broken", { cause: new Error("short") }))),
  };
  const arrived: string[] = [];
  loader.want("line", [request], (key) => arrived.push(key));
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(loader.progress("line").errors, [["a", "broken: short"]]);
  works = true;
  loader.retry();
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual([arrived, loader.progress("line").errors], [["a", "a"], []]);
  assert.equal(reason("text"), "text");
});
