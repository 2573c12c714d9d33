import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import type Mocha from "mocha";
import { skip } from "../privilege.ts";

/** The directories that can be applied with `kubectl apply -k`. */
export const KUSTOMIZATIONS: readonly string[] = [
  "manifests/base",
  ...readdirSync("manifests/overlays").map((name) => `manifests/overlays/${name}`),
];

/** Skips the test or the suite on a machine without kubectl; Debian has no package of it. */
export function requireKubectl(context: Mocha.Context): void {
  if (spawnSync("kubectl", ["version", "--client"]).status !== 0) skip(context, "kubectl is not installed");
}

const known = new Map<string, string>();

/** Returns what kustomize renders from a directory, whose files no test changes. It asks no cluster. */
export function rendered(directory: string): string {
  const before = known.get(directory);
  if (before !== undefined) return before;
  const result = spawnSync("kubectl", ["kustomize", directory], { encoding: "utf8" });
  assert.equal(result.status, 0, result.stderr);
  known.set(directory, result.stdout);
  return result.stdout;
}
