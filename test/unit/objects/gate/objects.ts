import assert from "node:assert/strict";
import type { ClusterObject } from "../../../../objects/model.ts";
import { judge } from "../../../../objects/gate/gate.ts";

/** A JSON object for the gate; a name is added to its metadata. */
export function manifest(
  kind: string,
  parts: Readonly<Record<string, unknown>> = {},
  metadata: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  const groups: Readonly<Record<string, string>> = {
    EndpointSlice: "discovery.k8s.io/v1",
    NetworkPolicy: "networking.k8s.io/v1",
    ClusterNetworkPolicy: "policy.networking.k8s.io/v1alpha2",
    ServiceCIDR: "networking.k8s.io/v1",
  };
  return { apiVersion: groups[kind] ?? "v1", kind, metadata: { name: "web", ...metadata }, ...parts };
}

/** The accepted object as plain data, and the problems of its parts that were omitted. */
export function accepted(value: unknown): {
  readonly object: Record<string, unknown>;
  readonly problems: readonly string[];
} {
  const verdict = judge(value);
  assert.equal(verdict.type, "accepted", verdict.type === "refused" ? verdict.problem : "");
  assert.ok(verdict.type === "accepted");
  return { object: plain(verdict.object), problems: verdict.problems };
}

/** The problem for which an object is refused. */
export function refusal(value: unknown): string {
  const verdict = judge(value);
  assert.equal(verdict.type, "refused");
  return verdict.type === "refused" ? verdict.problem : "";
}

/**
 * Copies an object as plain data: assert would distinguish labels without a prototype, and IPv6 addresses are bigints.
 */
function plain(object: ClusterObject): Record<string, unknown> {
  return structuredClone({ ...object });
}
