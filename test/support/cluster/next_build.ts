import assert from "node:assert/strict";
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { BUNDLE } from "../daemon/policyd.ts";

/**
 * Matches the code of the bundle that computes the version of a table's schema (policyd/ruleset/schema.ts); the bundler
 * may have numbered its variable.
 */
const VERSION = /hash\d*\("sha256", ?(text\d*)\)\.slice\(0, ?VERSION/g;

/**
 * Writes a build of the daemon whose static schema differs: its tables have other versions, so that it finds none of
 * its own in the kernel of a node where the present build ran.
 *
 * @param directory gets the build
 * @returns the bundle's path
 */
export function nextBuild(directory: string): string {
  cpSync(path.dirname(BUNDLE), directory, { recursive: true });
  const files = readdirSync(directory).filter((name) => name.endsWith(".js"));
  const texts = new Map(
    files.map((name) => [path.join(directory, name), readFileSync(path.join(directory, name), "utf8")]),
  );
  const [found, ...others] = [...texts].filter(([, text]) => text.search(VERSION) >= 0);
  assert.ok(found !== undefined && others.length === 0, `one file of the build has ${VERSION.source}`);
  const [file, text] = found;
  writeFileSync(
    file,
    text.replaceAll(VERSION, (code, name: string) => code.replace(name, `${name}+" of the next build"`)),
  );
  return path.join(directory, path.basename(BUNDLE));
}
