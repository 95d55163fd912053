import assert from "node:assert/strict";
import { test } from "node:test";
import { epoch } from "../src/calendars.ts";
import { drawable, powers, spread } from "../src/norms.ts";
import { pyramid } from "../src/ome.ts";
import { paintLights } from "../src/painting.ts";
import { EMPTY, MISSING, VALUE, drawGreatest, elements, raster, subtract } from "../src/raster.ts";
import { roundLength } from "../src/scalebar.ts";
import { positions, ticks } from "../src/ticks.ts";
import { timeMarks } from "../src/timeticks.ts";
import { typedPlace } from "../src/typedplace.ts";

const labels = (units: string, low: number, high: number, most = 4, calendar = "standard"): string[] =>
  timeMarks(low, high, epoch(units, calendar)!, most).map((mark) => mark.label);

test("times are marked at whole hours, days, months and years", () => {
  assert.deepEqual(labels("hours since 2024-02-28 05:00", 0, 24), ["2024-02-28 06:00", "12:00", "18:00", "2024-02-29"]);
  assert.deepEqual(labels("minutes since 2024-02-28 05:03", 0, 9, 5), [
    "2024-02-28 05:04",
    "05:06",
    "05:08",
    "05:10",
    "05:12",
  ]);
  assert.deepEqual(labels("hours since 2024-02-28 05:00", 0, 72), ["2024-02-29", "2024-03-01", "2024-03-02"]);
  assert.deepEqual(labels("days since 2024-01-20", 0, 50, 6), [
    "2024-01-21",
    "2024-02-01",
    "2024-02-11",
    "2024-02-21",
    "2024-03-01",
  ]);
  assert.deepEqual(labels("days since 2023-11-15", 0, 150, 6), ["2023-12", "2024-01", "2024-02", "2024-03", "2024-04"]);
  assert.deepEqual(labels("days since 2000-06-01", 0, 3650, 6), ["2002", "2004", "2006", "2008", "2010"]);
  assert.deepEqual(labels("days since 2020-02-20", 0, 12, 8, "360_day"), [
    "2020-02-21",
    "2020-02-23",
    "2020-02-25",
    "2020-02-27",
    "2020-02-29",
    "2020-03-01",
  ]);
});

test("marks lie at the elements of their times", () => {
  const time = epoch("hours since 2024-02-28 05:00")!;
  const of = { ...positions("time"), values: Float64Array.from({ length: 72 }, (_, at) => at), time };
  const found = ticks(of, 0, 72, 72, 4);
  assert.deepEqual(
    found.map(({ at }) => at),
    [19.5, 43.5, 67.5],
  );
});

test("what is typed names an element", () => {
  const time = epoch("hours since 2024-02-28 00:00")!;
  const hours = { ...positions("time"), values: Float64Array.from({ length: 72 }, (_, at) => at), time };
  assert.equal(typedPlace(hours, "2024-02-29", 72), 24);
  assert.equal(typedPlace(hours, "2024-02-29T06:20", 72), 30);
  assert.equal(typedPlace(hours, "2024-03", 72), 48);
  assert.equal(typedPlace(hours, "#5", 72), 5);
  assert.equal(typedPlace(hours, "#500", 72), 71);
  assert.equal(typedPlace(hours, "tomorrow", 72), null);
  const levels = { ...positions("level"), values: Float64Array.of(1000, 850, 500) };
  assert.equal(typedPlace(levels, "800", 3), 1);
  assert.equal(typedPlace(levels, "1\u202f000", 3), 0);
  const names = { ...positions("c"), labels: ["red", "green"] };
  assert.equal(typedPlace(names, "Gr", 2), 1);
  assert.equal(typedPlace(names, "1", 2), 1);
  assert.equal(typedPlace(names, "blue", 2), null);
  assert.equal(typedPlace(positions("x"), "7", 9), 7);
  assert.equal(typedPlace(positions("x"), "", 9), null);
});

test("norms spread values and find them again", () => {
  const limits = { low: -1, high: 1000 };
  for (const norm of ["linear", "symlog"] as const) {
    const { to, from } = spread(norm, limits);
    for (const value of [-5, 0, 0.1, 3, 1e4])
      assert.ok(Math.abs(from(to(value)) - value) < 1e-6 * (1 + Math.abs(value)));
    assert.ok(to(-1) < to(0) && to(0) < to(1));
  }
  assert.deepEqual(drawable("log", { low: 0, high: 100 }), { low: 0.01, high: 100 });
  assert.deepEqual(drawable("log", { low: 2, high: 100 }), { low: 2, high: 100 });
  assert.deepEqual(powers("log", { low: 0.5, high: 2000 }, 9), [1, 10, 100, 1000]);
  assert.deepEqual(powers("symlog", { low: -200, high: 200 }, 9), [-100, -10, -1, 0, 1, 10, 100]);
});

test("the greatest of several planes, and differences", () => {
  const into = raster(2, 1);
  const chunk = { data: Float64Array.of(1, NaN, 5, NaN, 3, NaN), shape: [3, 1, 2], stride: [2, 2, 1], bytes: 48 };
  const piece = { origin: [0, 0], size: [1, 2], axes: [1, 2] } as const;
  const [rows, columns] = [elements(0, 1, 1, 1), elements(0, 1, 2, 2)];
  drawGreatest(into, rows, columns, chunk, piece, [0, 2, 4], (stored) => stored);
  assert.deepEqual([into.values[0], ...into.states], [5, VALUE, MISSING]);
  const other = raster(2, 1);
  assert.deepEqual([...subtract(into, other).states], [EMPTY, EMPTY]);
  other.values.fill(2);
  other.states.fill(VALUE);
  const found = subtract(into, other);
  assert.deepEqual([found.values[0], ...found.states], [3, VALUE, MISSING]);
});

test("channels are added up as light, within their windows", () => {
  const [one, two] = [raster(2, 1), raster(2, 1)];
  for (const layer of [one, two]) layer.states.fill(VALUE);
  one.values.set([100, 50]);
  two.values.set([0, 300]);
  two.states[0] = MISSING;
  const pixels = new Uint8ClampedArray(8);
  const limits = { low: 0, high: 100 };
  paintLights(
    [
      { raster: one, colour: [255, 0, 0], limits },
      { raster: two, colour: [255, 255, 0], limits },
    ],
    pixels,
    false,
  );
  assert.deepEqual([...pixels], [255, 0, 0, 255, 255, 255, 0, 255]);
});

test("channels of OME-Zarr have colours, windows and names", () => {
  const datasets = [{ path: "0", coordinateTransformations: [{ type: "scale", scale: [1, 2, 2] }] }];
  const axes = ["c", "y", "x"];
  const window = { start: 10, end: 90, min: 0, max: 255 };
  const channels = [{ color: "FF8000", window, label: "DAPI", active: true }, { active: false, window: {} }, null];
  const found = pyramid({ multiscales: [{ axes, datasets }], omero: { channels } })!.channels;
  assert.deepEqual(found[0], { name: "DAPI", colour: [255, 128, 0], window: { low: 10, high: 90 }, active: true });
  assert.deepEqual(found[1], { name: "channel 1", colour: [255, 0, 0], window: null, active: false });
  assert.equal(found[2]!.active, true);
  assert.deepEqual(pyramid({ multiscales: [{ axes, datasets }] })!.channels, []);
});

test("scale bars have round lengths", () => {
  assert.deepEqual(
    [3.1e-5, 1e-6, 0.7, 2300, 5.5e-10].map((most) => roundLength(most).text),
    ["20 µm", "1 µm", "500 mm", "2 km", "0.5 nm"],
  );
});
