import type { Address } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrContains, formatCidr, hostCidr } from "../../../kernel/ip/cidr.ts";
import type { Labels, Pod } from "../../../objects/model.ts";
import { NAMESPACE_NAME } from "../../../objects/name.ts";
import type { PodEntry, PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { Connection } from "./connection.ts";
import { CONTROLLER_LABELS } from "../../input/workload.ts";

/** Returns the pod with an address; undefined for a node's address and for an unknown one. */
export function entryAt({ owners, pods }: PolicyIndex, address: Address): PodEntry | undefined {
  const owner = owners.get(address)?.[0];
  return owner?.type === "pod" ? pods.get(owner.key) : undefined;
}

/** Returns the common labels of some pods, without those of controllers, as a selector; undefined without any. */
export function commonSelector(pods: readonly Pod[]): { readonly matchLabels: Labels } | undefined {
  const [first] = pods;
  const labels = Object.entries(first?.labels ?? {}).filter(
    ([key, value]) => !CONTROLLER_LABELS.includes(key) && pods.every((pod) => pod.labels[key] === value),
  );
  return labels.length === 0 ? undefined : { matchLabels: Object.fromEntries(labels) };
}

/** Returns a peer that selects pods of one namespace by their common labels; undefined where they have none. */
export function podPeer(pods: readonly Pod[], namespace: string): object | undefined {
  const [first] = pods;
  const podSelector = commonSelector(pods);
  if (first === undefined || podSelector === undefined) return undefined;
  if (first.namespace === namespace) return { podSelector };
  return { namespaceSelector: { matchLabels: { [NAMESPACE_NAME]: first.namespace } }, podSelector };
}

/** Returns a peer that is a range of addresses. */
export function rangePeer(range: Cidr): object {
  return { ipBlock: { cidr: formatCidr(range) } };
}

/** Returns the range that an address represents: only itself, unless the connection has a range around it. */
export function rangeAt({ outside }: Pick<Connection, "outside">, address: Address): Cidr {
  return outside !== undefined && cidrContains(outside, address) ? outside : hostCidr(address);
}
