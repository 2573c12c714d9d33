import assert from "node:assert/strict";
import { judge } from "../../../../objects/gate/gate.ts";
import type { ClusterObject, Kind } from "../../../../objects/model.ts";

type ObjectOf<K extends Kind> = Extract<ClusterObject, { readonly kind: K }>;

const GROUPS: Readonly<Partial<Record<Kind, string>>> = {
  NetworkPolicy: "networking.k8s.io/v1",
  ClusterNetworkPolicy: "policy.networking.k8s.io/v1beta1",
};

/** Returns the object of a manifest that lacks its kind, read through the gate. */
export function objectOf<K extends Kind>(kind: K, manifest: object): ObjectOf<K> {
  const verdict = judge({ apiVersion: GROUPS[kind] ?? "v1", kind, ...manifest });
  assert.ok(verdict.type === "accepted", verdict.type === "refused" ? verdict.problem : kind);
  const { object } = verdict;
  assert.ok(isOf(object, kind));
  return object;
}

function isOf<K extends Kind>(object: ClusterObject, kind: K): object is ObjectOf<K> {
  return object.kind === kind;
}
