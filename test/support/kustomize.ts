import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import type Mocha from "mocha";
import { skip } from "./privilege.ts";

/** What can be applied with `kubectl apply -k`. */
export const KUSTOMIZATIONS: readonly string[] = [
  "manifests/base",
  ...readdirSync("manifests/overlays").map((name) => `manifests/overlays/${name}`),
];

/** Skips the test or the suite where there is no kubectl; Debian has none to install. */
export function requireKubectl(context: Mocha.Context): void {
  if (spawnSync("kubectl", ["version", "--client"]).status !== 0) skip(context, "kubectl is not installed");
}

/** What kustomize makes of a directory. It asks no cluster. */
export function rendered(directory: string): string {
  const result = spawnSync("kubectl", ["kustomize", directory], { encoding: "utf8" });
  assert.equal(result.status, 0, result.stderr);
  return result.stdout;
}
