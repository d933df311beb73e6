// Builds the dashboard into the Python package. File names contain a content hash, so browsers can cache the files
// forever; only index.html is revalidated. `--watch` rebuilds on each change, `--test` runs the unit tests, `--into DIR`
// builds into another directory.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import * as esbuild from "esbuild";

const { values: options } = parseArgs({
  options: { watch: { type: "boolean" }, test: { type: "boolean" }, into: { type: "string" } },
});
const here = fileURLToPath(new URL(".", import.meta.url));
const assets = resolve(options.into ?? join(here, "../src/hotseat/dashboard/assets"));
process.chdir(here);

const pieces = {
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx", theme: "src/theme.ts", seat: "src/seat.svg" },
  outdir: join(assets, "files"),
  entryNames: "[name]-[hash]",
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome111", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".svg": "copy" },
  legalComments: "none",
  preserveSymlinks: true, // or a linked node_modules has other paths: other hashes, and no licences
  metafile: true,
  logLevel: "warning",
  plugins: [{ name: "page", setup: (build) => build.onEnd(writePage) }],
};

if (options.test) process.exit(await runTests());
else if (options.watch) await (await esbuild.context(fresh(pieces))).watch();
else await esbuild.build(fresh(pieces));

function fresh(options) {
  rmSync(assets, { recursive: true, force: true });
  mkdirSync(assets, { recursive: true });
  return options;
}

function writePage({ metafile, errors }) {
  if (errors.length) return;
  let html = readFileSync("src/index.html", "utf8");
  for (const file of Object.keys(metafile.outputs)) {
    const [, name, kind] = /([a-z]+)-[A-Z0-9]+\.(\w+)$/.exec(file);
    html = html.replace(`{${name}.${kind}}`, `files/${basename(file)}`);
  }
  writeFileSync(join(assets, "index.html"), html);
  writeFileSync(join(assets, "LICENSES"), licences(Object.keys(metafile.inputs)));
}

/** The licence texts of the bundled packages. */
function licences(inputs) {
  const packages = inputs
    .map((file) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1])
    .filter(Boolean);
  return [...new Set(packages)].sort().map(licence).join("\n\n");
}

function licence(name) {
  const folder = join("node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
}

async function runTests() {
  const folder = mkdtempSync(join(tmpdir(), "hotseat-dashboard-"));
  const entryPoints = readdirSync("src", { recursive: true })
    .filter((file) => file.endsWith(".test.ts"))
    .map((file) => join("src", file));
  const outExtension = { ".js": ".mjs" };
  await esbuild.build({
    absWorkingDir: here,
    entryPoints,
    outdir: folder,
    outExtension,
    bundle: true,
    platform: "node",
    format: "esm",
  });
  const files = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith(".mjs"));
  const { status } = spawnSync(process.execPath, ["--test", ...files.map((file) => join(folder, file))], {
    stdio: "inherit",
  });
  rmSync(folder, { recursive: true });
  return status ?? 1;
}
