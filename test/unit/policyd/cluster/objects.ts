import assert from "node:assert/strict";
import type { ClusterObject } from "../../../../policyd/cluster/model.ts";
import { judge } from "../../../../policyd/cluster/gate.ts";

/** An object of JSON to judge: metadata is put together with a name. */
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

/** What an accepted object became, without prototypes and branded types, and what was left out of it. */
export function accepted(value: unknown): {
  readonly object: Record<string, unknown>;
  readonly problems: readonly string[];
} {
  const verdict = judge(value);
  assert.equal(verdict.type, "accepted", verdict.type === "refused" ? verdict.problem : "");
  assert.ok(verdict.type === "accepted");
  return { object: plain(verdict.object), problems: verdict.problems };
}

/** Why an object is refused. */
export function refusal(value: unknown): string {
  const verdict = judge(value);
  assert.equal(verdict.type, "refused");
  return verdict.type === "refused" ? verdict.problem : "";
}

/** Labels have no prototype, which assert would tell apart; addresses of IPv6 are bigints. */
function plain(object: ClusterObject): Record<string, unknown> {
  return structuredClone({ ...object });
}
