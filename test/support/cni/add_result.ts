import assert from "node:assert/strict";
import * as v from "valibot";
import type { CallOutcome } from "../../lab/cni.ts";

const schema = v.object({
  cniVersion: v.string(),
  interfaces: v.array(v.object({ name: v.string(), mac: v.string(), sandbox: v.optional(v.string()) })),
  ips: v.array(v.object({ interface: v.number(), address: v.string(), gateway: v.string() })),
  routes: v.array(v.object({ dst: v.string(), gw: v.string() })),
});

/** The result of an ADD in the shape of version 1.x. */
export type PodResult = v.InferOutput<typeof schema>;

/** Returns the result of an ADD, and asserts that the ADD succeeded and that the result has this shape. */
export function podResult({ exitCode, stdout }: CallOutcome): PodResult {
  assert.equal(exitCode, 0, stdout);
  return v.parse(schema, JSON.parse(stdout));
}

/** Returns the name of the host's end in a result: the interface that is neither the bridge nor in a sandbox. */
export function hostInterfaceOf(result: PodResult): string {
  const host = result.interfaces[1];
  assert.ok(host !== undefined && host.sandbox === undefined);
  return host.name;
}

/** Asserts that a call other than ADD succeeded, and that it printed nothing. */
export function assertQuiet({ exitCode, stdout, stderr }: CallOutcome, what: string): void {
  assert.deepEqual({ exitCode, stdout, stderr }, { exitCode: 0, stdout: "", stderr: "" }, what);
}
