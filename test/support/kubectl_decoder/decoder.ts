import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import type Mocha from "mocha";
import * as v from "valibot";
import { CACHE, goEnvironment, hasGo } from "../programs/go.ts";
import { skip } from "../privilege.ts";

const HERE = import.meta.dirname;
const PROGRAM = path.join(CACHE, "kubectl-decoder-0.37.2");
const LARGEST_OUTPUT = 256 * 1024 * 1024;

/** The objects that kubectl reads in a text, or the error when it cannot read it. */
export type Decoded = v.InferOutput<typeof DECODED>;

const DECODED = v.object({ objects: v.nullable(v.array(v.unknown())), error: v.optional(v.string()) });

/**
 * Builds the Go program of this folder into the user's cache, unless it exists there.
 *
 * Without Go it skips the tests of the hook's suite.
 *
 * @throws Error when the build fails
 */
export function requireDecoder(context: Mocha.Context): void {
  if (existsSync(PROGRAM)) return;
  if (!hasGo()) {
    skip(context, "this machine has no Go to build kubectl's decoder for comparison: install Go");
  }
  mkdirSync(CACHE, { recursive: true });
  const env = goEnvironment({ GOFLAGS: "-buildvcs=false -mod=readonly -trimpath" });
  const { status, stderr } = spawnSync("go", ["build", "-o", PROGRAM, "."], { cwd: HERE, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`kubectl's decoder could not be built: ${stderr.trim()}`);
}

/** Decodes texts as kubectl does. Call {@link requireDecoder} before. */
export function decodeAll(texts: readonly string[]): readonly Decoded[] {
  const input = JSON.stringify(texts.map((text) => Buffer.from(text).toString("base64")));
  const { status, stdout, stderr } = spawnSync(PROGRAM, { input, encoding: "utf8", maxBuffer: LARGEST_OUTPUT });
  if (status !== 0) throw new Error(`kubectl's decoder: ${stderr}`);
  return v.parse(v.array(DECODED), JSON.parse(stdout));
}
