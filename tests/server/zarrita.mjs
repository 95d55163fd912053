// Reads arrays by zarrita: a list of URLs comes by standard input, a line of JSON for each goes to standard output.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const folder = join(process.argv[2], "node_modules", "zarrita");
const { exports } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
const main = exports["."];
const zarr = await import(pathToFileURL(join(folder, main.import ?? main.default ?? main)).href);

function rows(result) {
  // the elements in C order, whatever the strides
  const { data, shape, stride } = result;
  const out = [];
  const walk = (axis, offset) => {
    if (axis === shape.length) out.push(typeof data.get === "function" ? data.get(offset) : data[offset]);
    else for (let i = 0; i < shape[axis]; i++) walk(axis + 1, offset + i * stride[axis]);
  };
  walk(0, 0);
  return out;
}

// a queue for zarrita with few requests at once, as in a browser
function createQueue() {
  const waiting = [];
  const work = async () => {
    while (waiting.length) await waiting.shift()();
  };
  return { add: (task) => waiting.push(task), onIdle: () => Promise.all(Array.from({ length: 32 }, work)) };
}

const text = (value) =>
  typeof value === "bigint" ? value.toString() : Object.is(value, -0) ? "-0" : typeof value === "number" ? String(value) : value;

for (const url of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    const array = await zarr.open.v3(new zarr.FetchStore(url), { kind: "array" });
    const read = await zarr.get(array, null, { createQueue });
    const scalar = array.shape.length === 0;
    const values = scalar ? [read] : rows(read);
    console.log(JSON.stringify({ url, shape: array.shape, dtype: array.dtype, values: values.map(text) }));
  } catch (error) {
    console.log(JSON.stringify({ url, error: String(error) }));
  }
}
