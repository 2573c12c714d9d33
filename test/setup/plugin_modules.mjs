import { mkdirSync, writeFileSync } from "node:fs";
import { SourceMap } from "node:module";
import path from "node:path";
import process from "node:process";
import { build } from "esbuild";

/**
 * Writes the plugin's code for cni/native: plugin_modules.mjs OUTPUT MODULE….
 *
 * Each of these modules becomes a file, and what several of them need becomes files of its own. OUTPUT/files lists them
 * for compile.c. OUTPUT/lines.h has the TypeScript file and line of each line of code, for stack traces.
 */

/** The parts of ECMAScript that the engine is built without: a use would fail at run time only. */
const MISSING = ["Intl", "Proxy", "eval"];

const [, , output = "", ...modules] = process.argv;
const { outputFiles } = await build({
  entryPoints: modules,
  bundle: true,
  splitting: true,
  format: "esm",
  // Nothing but the modules themselves can be imported.
  platform: "neutral",
  target: "es2024",
  outdir: output,
  outbase: ".",
  sourcemap: "external",
  write: false,
  logLevel: "error",
  define: Object.fromEntries(MISSING.map((name) => [name, `MISSING_${name}`])),
});
/** By their paths in the output. */
const texts = new Map(outputFiles.map((file) => [path.relative(output, file.path), file.text]));
const codes = [...texts.keys()].filter((file) => file.endsWith(".js")).sort();

for (const file of codes) {
  const code = texts.get(file) ?? "";
  const [, name] = /\bMISSING_(\w+)/.exec(code) ?? [];
  if (name !== undefined) throw new Error(`the plugin uses ${name}, which its engine does not have`);
  mkdirSync(path.dirname(path.join(output, file)), { recursive: true });
  writeFileSync(path.join(output, file), code);
}
writeFileSync(path.join(output, "files"), codes.map((file) => `${file}\n${path.join(output, file)}\n`).join(""));
writeFileSync(path.join(output, "lines.h"), lineTable());

/** Returns C tables: the sources, and for each file of code the source and the line of each of its lines. */
function lineTable() {
  /** @type {string[]} */
  const sources = [];
  const files = codes.map((file) => {
    // oxlint-disable-next-line no-unsafe-argument -- esbuild wrote it in this form
    const map = new SourceMap(JSON.parse(texts.get(`${file}.map`) ?? "{}"));
    const lines = (texts.get(file) ?? "").split("\n").map((_, line) => {
      // The middle of a line may be of another one, but its beginning is not mapped where it is indented.
      const entry = map.findEntry(line, 1000);
      if (!("originalSource" in entry) || entry.generatedLine !== line) return 0;
      const source = path.relative(process.cwd(), path.resolve(output, path.dirname(file), entry.originalSource));
      if (!sources.includes(source)) sources.push(source);
      return sources.indexOf(source) * 0x1_0000 + entry.originalLine + 1;
    });
    return `    {"${file}", ${lines.length}, (const uint32_t[]){${lines.join()}}},\n`;
  });
  const names = sources.map((source) => `    "${source}",\n`).join("");
  return (
    `static const char *const sources[] = {\n${names}};\n` +
    `static const struct {\n  const char *name;\n  unsigned count;\n  const uint32_t *lines;\n} codes[] = {\n${files.join("")}};\n`
  );
}
