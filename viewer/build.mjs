/** Build the page into the Python package, or with --tests the tests of its parts; --to DIRECTORY puts the page elsewhere. */

import { cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { zlibSync } from "fflate";

const here = dirname(fileURLToPath(import.meta.url));
const at = process.argv.indexOf("--to");
const page = at > 0 ? process.argv[at + 1] : join(here, "../src/tegula/server/page");

/** Replace what must occur exactly once. */
function once(source, pattern, by, path) {
  const found = source.match(new RegExp(pattern, `${pattern.flags}g`)) ?? [];
  if (found.length !== 1) throw new Error(`${path}: expected ${pattern} once, found it ${found.length} times`);
  return source.replace(pattern, by);
}

/**
 * Fit the codecs of numcodecs into the page.
 *
 * Their WebAssembly is text in base64; compressed it is a third as long, and fflate gives the same bytes everywhere.
 * Their code makes functions of text, which the page's content security policy forbids; src/embind.ts does without.
 */
const codecs = {
  name: "codecs",
  setup(build) {
    build.onLoad({ filter: /numcodecs[\\/]dist[\\/](blosc|lz4|zstd)\.js$/ }, ({ path }) => {
      let source = readFileSync(path, "utf8");
      source = once(
        source,
        /__toBinary\(\s*"([A-Za-z0-9+/=]+)"\s*\)/,
        (_, text) => {
          const packed = Buffer.from(zlibSync(Buffer.from(text, "base64"), { level: 9 })).toString("base64");
          return `unzlibSync(__toBinary("${packed}"))`;
        },
        path,
      );
      source = once(source, /var b = Function;[^]*?return a instanceof Object \? a : c;/, "return callerOf(a);", path);
      return {
        contents: `import { unzlibSync } from "fflate";\nimport { callerOf } from "embind";\n${source}`,
        loader: "js",
      };
    });
  },
};

/** Return the licenses of all packages that files come from. */
function licenses(inputs) {
  const names = inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean);
  const texts = [...new Set(names)].sort().map((name) => {
    const directory = join(here, "node_modules", name);
    const file = readdirSync(directory).find((found) => /^license(\.md|\.txt)?$/i.test(found));
    const { version } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
    return `${name} ${version}\n\n${readFileSync(join(directory, file), "utf8").trim()}\n`;
  });
  return [...texts, readFileSync(join(here, "src/native-licenses.txt"), "utf8")].join(`\n${"-".repeat(80)}\n\n`);
}

const shared = {
  bundle: true,
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  plugins: [codecs],
  alias: { embind: "./src/embind.ts" },
  logLevel: "warning",
  absWorkingDir: here,
};

if (process.argv.includes("--tests")) {
  const names = readdirSync(join(here, "tests")).filter((name) => name.endsWith(".test.ts"));
  const entryPoints = names.map((name) => `tests/${name}`);
  await build({
    ...shared,
    entryPoints,
    outdir: "build/tests",
    platform: "node",
    format: "esm",
    outExtension: { ".js": ".mjs" },
  });
} else {
  mkdirSync(page, { recursive: true });
  const entryPoints = { app: "src/main.ts" };
  const { metafile } = await build({
    ...shared,
    entryPoints,
    outdir: page,
    minify: true,
    format: "iife",
    metafile: true,
  });
  writeFileSync(join(page, "licenses.txt"), licenses(Object.keys(metafile.inputs)));
  await build({ ...shared, entryPoints: ["src/app.css"], outdir: page, minify: true });
  cpSync(join(here, "src/index.html"), join(page, "index.html"));
}
