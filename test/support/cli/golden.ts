import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { ManifestFileSystem } from "../../../cli/input/manifest_files.ts";
import { memoryFiles } from "./cli.ts";

const FIXTURES = "test/fixtures/cli";

/** Reads the files of a directory of fixtures, such as `shop`, and of its subdirectories, by their paths below it. */
export function fixtureFiles(name: string): ManifestFileSystem {
  const entries = readdirSync(path.join(FIXTURES, name), { withFileTypes: true, recursive: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
  return memoryFiles(
    Object.fromEntries(files.map((file) => [path.relative(FIXTURES, file), readFileSync(file, "utf8")])),
  );
}

/**
 * Compares an output with the expected one in a file below test/fixtures/cli. UPDATE_GOLDEN=1 writes the file instead:
 * read the difference before you commit it.
 */
export function assertGolden(name: string, actual: string): void {
  const file = path.join(FIXTURES, name);
  if (process.env["UPDATE_GOLDEN"] === "1") {
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, actual);
  }
  assert.ok(existsSync(file), `${file} is missing: run the test once with UPDATE_GOLDEN=1 and read what it writes`);
  assert.equal(actual, readFileSync(file, "utf8"));
}
