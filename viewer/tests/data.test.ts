import assert from "node:assert/strict";
import { test } from "node:test";
import { date, epoch } from "../src/calendars.ts";
import { decoded, meaning, pointsUp } from "../src/cf.ts";
import { checked, crc32c } from "../src/checksums.ts";
import { castFor, isNumeric } from "../src/documents.ts";
import { parseNpy } from "../src/npy.ts";
import { choose, factorsOf, pyramid } from "../src/ome.ts";
import { bytes, counted, grouped, number, ungrouped } from "../src/format.ts";
import { cell } from "../src/rows.ts";
import { parsed, withExactIntegers } from "../src/server.ts";

const named = (value: number, units: string, calendar = "standard", step = 1): string =>
  date(value, epoch(units, calendar)!, step);

test("dates in the Gregorian calendar are those of JavaScript, for 4,000 years", () => {
  for (let days = -700_000; days < 700_000; days += 997) {
    const [year, month, day] = [new Date(days * 86_400_000)].flatMap((at) => [
      at.getUTCFullYear(),
      at.getUTCMonth() + 1,
      at.getUTCDate(),
    ]);
    const years = year! < 0 ? `-${String(-year!).padStart(4, "0")}` : String(year).padStart(4, "0");
    const expected = `${years}-${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}`;
    assert.equal(named(days, "days since 1970-01-01", "proleptic_gregorian"), expected);
  }
});

test("each calendar has its own days", () => {
  assert.equal(named(59, "days since 2020-01-01", "noleap"), "2020-03-01");
  assert.equal(named(59, "days since 2020-01-01", "standard"), "2020-02-29");
  assert.equal(named(59, "days since 2021-01-01", "366_day"), "2021-02-29");
  assert.equal(named(59, "days since 2021-01-01", "360_day"), "2021-02-30");
  assert.equal(named(1, "days since 1582-10-04", "standard"), "1582-10-15");
  assert.equal(named(1, "days since 1582-10-04", "julian"), "1582-10-05");
  assert.equal(named(1, "days since 1582-10-04", "proleptic_gregorian"), "1582-10-05");
  assert.equal(named(0, "days since 1900-02-29", "julian"), "1900-02-29");
  for (const calendar of ["noleap", "366_day", "360_day", "julian", "standard"]) {
    const of = epoch("days since 0001-01-01", calendar)!;
    let before = "";
    for (let day = 0; day < 3000; day++) {
      const now = date(day, of, 86_400_000);
      assert.ok(now > before, `${calendar} ${before} ${now}`);
      before = now;
    }
  }
});

test("units of time are read, zones too, and what is no time is not", () => {
  assert.equal(named(6, "hours since 1990-01-01 00:00:00"), "1990-01-01 06:00");
  assert.equal(named(90, "s since 1990-1-1T23:59:00Z"), "1990-01-02 00:00:30");
  assert.equal(named(0, "minutes since 2000-01-01 00:00:00 -06:00"), "2000-01-01 06:00");
  assert.equal(named(1.5, "days since 2000-01-01"), "2000-01-02 12:00");
  assert.equal(named(12.345, "seconds since 2000-01-01"), "2000-01-01 00:00:12.345");
  assert.equal(named(400, "days since 2000-01-01", "standard", 400 * 86_400_000), "2001");
  assert.equal(named(NaN, "days since 2000-01-01"), "NaT");
  assert.equal(epoch("K"), null);
  assert.equal(epoch("months since 2000-01-01"), null);
  assert.equal(epoch("days since 2000-01-01", "martian"), null);
});

test("elements stand for what the server says", () => {
  const plain = { missing: [], scale: 1, offset: 0, read_as: null, title: "", units: "", dates: false };
  const says = meaning({ ...plain, missing: [-32768, -1, "Infinity"], scale: 0.5, offset: 10, units: "K" }, {});
  assert.deepEqual(
    [4, -32768, -1, 101, NaN, Infinity].map((value) => decoded(value, says)),
    [12, NaN, NaN, 60.5, NaN, NaN],
  );
  assert.equal(decoded(-9, meaning(null, {}, -9)), NaN);
  assert.equal(decoded(-9, meaning(null, { _FillValue: -9, valid_min: 0 })), -9);
  // the masks are of the type that the elements are read as
  const unsigned = meaning({ ...plain, read_as: "uint8", missing: [254] }, {});
  assert.deepEqual(
    [1, -1, -2].map((value) => decoded(value, unsigned)),
    [1, 255, NaN],
  );
  const signed = meaning({ ...plain, read_as: "int16" }, {});
  assert.deepEqual(
    [32767, 32768, 65535].map((value) => decoded(value, signed)),
    [32767, -32768, -1],
  );
  const dated = { ...plain, units: "days since 2000-01-01", dates: true };
  assert.equal(meaning(dated, { calendar: "noleap" }).time?.calendar, "noleap");
  assert.equal(meaning({ ...dated, dates: false }, {}).time, null);
});

test("latitudes that rise point up", () => {
  assert.equal(pointsUp({ units: "degrees_north" }, [-90, 90]), true);
  assert.equal(pointsUp({ units: "degrees_north" }, [90, -90]), false);
  assert.equal(pointsUp({ units: "m" }, [0, 1]), false);
});

test("what a browser can't read is asked for in another type", () => {
  const document = (data_type: unknown, codecs: unknown[] = ["bytes"]): never =>
    ({
      node_type: "array",
      shape: [4],
      data_type,
      chunk_grid: { name: "regular", configuration: { chunk_shape: [2] } },
      codecs,
      fill_value: 0,
    }) as never;
  assert.equal(castFor(document("float64")), null);
  assert.equal(castFor(document("int64", [{ name: "bytes" }, { name: "zstd" }])), null);
  assert.equal(castFor(document("int64", [{ name: "bytes" }, { name: "numcodecs.lzma" }])), "int64");
  assert.equal(castFor(document("bool", ["packbits"])), "uint8");
  assert.equal(castFor(document("bfloat16")), "float32");
  assert.equal(
    castFor(document({ name: "numpy.datetime64", configuration: { unit: "D", scale_factor: 1 } })),
    "float64",
  );
  const sharded = (index_location: string): never =>
    document("uint8", [
      {
        name: "sharding_indexed",
        configuration: { codecs: ["bytes"], index_codecs: ["bytes", "crc32c"], index_location },
      },
    ]);
  assert.equal(castFor(sharded("end")), null);
  assert.equal(castFor(sharded("start")), "uint8");
  const keyed = (chunk_key_encoding: unknown): never =>
    ({ ...(document("int32") as object), chunk_key_encoding }) as never;
  assert.equal(castFor(keyed({ name: "v2", configuration: { separator: "/" } })), null);
  assert.equal(castFor(keyed({ name: "zarrs.default_suffix", configuration: { suffix: ".tiff" } })), "int32");
  assert.equal(isNumeric(document("string")), false);
  assert.equal(isNumeric(document({ name: "struct" })), false);
});

test("pyramids of OME-Zarr 0.4, 0.5 and 0.6 are found, and the level for a scale chosen", () => {
  const datasets = [1, 2, 4].map((size, at) => ({
    path: String(at),
    coordinateTransformations: [{ type: "scale", scale: [1, size * 0.5, size * 0.5] }],
  }));
  const multiscales = [
    { version: "0.4", axes: [{ name: "c", type: "channel" }, { name: "y", type: "space" }, "x"], datasets },
  ];
  const placed = datasets.map(({ path, coordinateTransformations: transformations }) => ({
    path,
    coordinateTransformations: [
      path === "0"
        ? { ...transformations[0], input: { path }, output: { name: "intrinsic" } }
        : { type: "sequence", transformations, input: { path }, output: { name: "intrinsic" } },
    ],
  }));
  const systems = [
    { name: "world", axes: [{ name: "lat" }, { name: "lon" }] },
    { name: "intrinsic", axes: multiscales[0]!.axes },
  ];
  for (const attributes of [
    { multiscales },
    { ome: { version: "0.5", multiscales } },
    { ome: { version: "0.6", multiscales: [{ coordinateSystems: systems, datasets: placed }] } },
  ]) {
    const found = pyramid(attributes)!;
    assert.deepEqual(
      found.levels.map((level) => level.factors),
      [
        [1, 1, 1],
        [1, 2, 2],
        [1, 4, 4],
      ],
    );
    assert.deepEqual(
      found.axes.map((axis) => axis.name),
      ["c", "y", "x"],
    );
  }
  assert.deepEqual(factorsOf({ path: "1", factors: [] }, [3, 50, 25], [3, 99, 99]), [1, 2, 4]);
  const factors = [
    [1, 1],
    [2, 2],
    [4, 4],
  ] as const;
  assert.deepEqual(
    [2, 1, 0.5, 0.4, 0.25, 0.01].map((scale) => choose(factors, scale, scale)),
    [0, 0, 1, 1, 2, 2],
  );
  for (const broken of [
    {},
    { multiscales: [] },
    { multiscales: [{}] },
    { ome: 3 },
    { multiscales: [{ datasets: [3] }] },
  ])
    assert.equal(pyramid(broken), null);
});

test("numbers are written with the digits that say something", () => {
  assert.deepEqual(
    [0.1 + 0.2, 1e-9, 123456, -3, 1e300, NaN].map((value) => number(value)),
    ["0.3", "1e−9", "123\u202f456", "−3", "1e300", "NaN"],
  );
  assert.equal(grouped(12345678901234567890n), "12\u202f345\u202f678\u202f901\u202f234\u202f567\u202f890");
  assert.deepEqual(
    [counted(1, "row"), counted(0, "row"), counted(2000, "row")],
    ["1 row", "0 rows", "2\u202f000 rows"],
  );
  assert.deepEqual([grouped(-12345n), 0.5].map(ungrouped), [-12345, 0.5]);
  assert.deepEqual([0, 1023, 1536, 10 * 2 ** 30].map(bytes), ["0 B", "1023 B", "1.5 KiB", "10 GiB"]);
});

test("files of NumPy are read, in either order of bytes", () => {
  const file = (descr: string, body: ArrayBuffer): ArrayBuffer => {
    const text = `{'descr': '${descr}', 'fortran_order': False, 'shape': (2, 1), }`.padEnd(117) + "\n";
    const head = [0x93, ..."NUMPY".split("").map((letter) => letter.charCodeAt(0)), 1, 0, text.length, 0];
    return Uint8Array.from([...head, ...new TextEncoder().encode(text), ...new Uint8Array(body)]).buffer;
  };
  const found = parseNpy(file("<f8", Float64Array.of(1.5, -2).buffer));
  assert.deepEqual(
    [[...(found.data as Float64Array)], found.shape],
    [
      [1.5, -2],
      [2, 1],
    ],
  );
  assert.deepEqual([...(parseNpy(file(">i2", Uint8Array.of(1, 0, 255, 255).buffer)).data as Int16Array)], [256, -1]);
  assert.deepEqual([...(parseNpy(file("<u8", BigUint64Array.of(7n, 2n).buffer)).data as Float64Array)], [7, 2]);
  assert.throws(() => parseNpy(file("<U3", new ArrayBuffer(24))), /does not read/);
});

test("documents with NaN and infinities are read", () => {
  const text = '{"a": NaN, "b": [-Infinity,Infinity], "NaN": "x NaN \\\\", "c": "\\"NaN", "d": -1}';
  assert.deepEqual(parsed(text), {
    a: "NaN",
    b: ["-Infinity", "Infinity"],
    NaN: "x NaN \\",
    c: '"NaN',
    d: -1,
  });
  const long = "\\n".repeat(1_000_000);
  assert.equal((parsed(`["${long}", NaN]`) as string[])[0]!.length, 1_000_000);
  for (const wrong of ["", "nan", '{"a": NaNs}', "[NaN", '"NaN']) assert.throws(() => parsed(wrong), SyntaxError);
});

test("integers are shown with all of their digits", () => {
  const shown = (text: string): string => cell(JSON.parse(withExactIntegers(text))).replaceAll("\u202f", " ");
  assert.equal(shown("1577836800000123"), "1 577 836 800 000 123");
  assert.equal(
    shown("[9223372036854775807, -9223372036854775808]"),
    "[9 223 372 036 854 775 807, −9 223 372 036 854 775 808]",
  );
  assert.equal(shown("[18446744073709551615, 1]"), "[18 446 744 073 709 551 615, 1]");
  assert.equal(shown("[0.12345678901234567, 1.2345678901234567e+20]"), "[0.12345679, 1.234568e20]");
  for (const text of ['"12345678901234567890"', '{"a\\"12345678901234567890":1}', '["\\\\", 12]']) {
    assert.equal(withExactIntegers(text), text);
  }
});

test("checksums are compared", () => {
  const text = new TextEncoder().encode("123456789");
  assert.equal(crc32c(text), 0xe3069283);
  assert.equal(crc32c(new Uint8Array()), 0);
  const whole = new Uint8Array([9, ...text, 0x83, 0x92, 0x06, 0xe3]).subarray(1); // in another buffer, not at its start
  assert.deepEqual(checked(whole), text);
  for (let at = 0; at < whole.length; at++) {
    const other = Uint8Array.from(whole, (byte, place) => (place === at ? byte ^ 1 : byte));
    assert.throws(() => checked(other), /the checksum does not match/);
    assert.throws(() => checked(whole.subarray(0, at)), /the checksum does not match/);
  }
});
