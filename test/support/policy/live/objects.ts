import assert from "node:assert/strict";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import { type Address, parseAddress } from "../../../../kernel/ip/address.ts";
import { hostCidr } from "../../../../kernel/ip/cidr.ts";
import { judge } from "../../../../objects/gate/gate.ts";
import type { ClusterObject, Kind, Pod } from "../../../../objects/model.ts";
import { attachmentRecord } from "../../cni/attachment_record.ts";

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

/** Returns the attachment of a pod that has these addresses and no host ports. */
export function attachmentOf(
  { namespace, name, uid }: Pick<Pod, "namespace" | "name" | "uid">,
  addresses: readonly (Address | string)[],
): AttachmentRecord {
  return attachmentRecord({
    containerId: `${namespace}-${name}`,
    pod: { namespace, name, uid },
    addresses: addresses.map((one) => hostCidr(typeof one === "string" ? parseAddress(one) : one)),
    portMappings: [],
  });
}

function isOf<K extends Kind>(object: ClusterObject, kind: K): object is ObjectOf<K> {
  return object.kind === kind;
}
