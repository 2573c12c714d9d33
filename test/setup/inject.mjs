import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import process from "node:process";

/** Writes a blob into a program of Node: inject.mjs DIRECTORY-OF-POSTJECT PROGRAM BLOB. In a process of its own, since postject prints warnings. */

const [, , postject = "", program = "", blob = ""] = process.argv;
const { inject } =
  /** @type {{ inject: (program: string, name: string, blob: Uint8Array, options: { sentinelFuse: string }) => Promise<void> }} */ (
    createRequire(import.meta.url)(`${postject}/dist/api.js`)
  );
// The names that Node looks for.
await inject(program, "NODE_SEA_BLOB", readFileSync(blob), {
  sentinelFuse: "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2",
});
