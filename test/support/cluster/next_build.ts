import assert from "node:assert/strict";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { BUNDLE } from "../policyd.ts";

/** Where the bundle works out the version of a table's schema (policyd/dataplane/schema.ts). */
const VERSION = 'update(text).digest("hex")';

/**
 * A build of the daemon whose static schema is another one: its tables have other versions, so that it finds none of its own
 * in the kernel of a node where this build ran.
 *
 * @param directory gets the build
 * @returns the bundle's path
 */
export function nextBuild(directory: string): string {
  cpSync(path.dirname(BUNDLE), directory, { recursive: true });
  const bundle = path.join(directory, path.basename(BUNDLE));
  const parts = readFileSync(bundle, "utf8").split(VERSION);
  assert.equal(parts.length, 2, `the bundle has ${VERSION} once`);
  writeFileSync(bundle, parts.join('update(text+" of the next build").digest("hex")'));
  return bundle;
}
