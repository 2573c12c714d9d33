import type { Address } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrContains, formatCidr, hostCidr } from "../../../kernel/ip/cidr.ts";
import type { Labels, Pod } from "../../../objects/model.ts";
import { NAMESPACE_NAME } from "../../../objects/name.ts";
import type { PodEntry, PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { Connection } from "./connection.ts";
import { CONTROLLER_LABELS } from "../../input/added_labels.ts";

/** Returns the pod with an address; undefined for a node's address and for an unknown one. */
export function entryAt({ owners, pods }: PolicyIndex, address: Address): PodEntry | undefined {
  const owner = owners.get(address)?.[0];
  return owner?.type === "pod" ? pods.get(owner.key) : undefined;
}

/** Matches keys of labels that usually change with a release, as Helm, Argo, Istio and Knative write them. */
const RELEASE_LABEL = /(?:chart|version|revision|rev|generation|hash|checksum|commit|sha|build|uid)$/i;

/**
 * Returns a selector for some pods of one workload: that of its controller where it is known, else their common labels,
 * without those of controllers; undefined without any. A label that changes with releases is omitted where the others
 * select no more of the present pods.
 */
export function commonSelector(
  pods: readonly Pod[],
  { pods: all }: Pick<PolicyIndex, "pods">,
): { readonly matchLabels: Labels } | undefined {
  const [first] = pods;
  const isCommon = ([key, value]: readonly [string, string]): boolean => pods.every((pod) => pod.labels[key] === value);
  const common = Object.entries(first?.labels ?? {}).filter(
    (one) => !CONTROLLER_LABELS.includes(one[0]) && isCommon(one),
  );
  const selector = first?.controller?.selector;
  if (selector !== undefined && Object.entries(selector).every(isCommon)) return { matchLabels: selector };
  const has = ({ labels }: Pod, wanted: typeof common): boolean =>
    wanted.every(([key, value]) => labels[key] === value);
  let left = common;
  for (const label of common.filter(([key]) => RELEASE_LABEL.test(key))) {
    const fewer = left.filter((one) => one !== label);
    const isAsNarrow = [...all.values()].every(
      ({ pod }) => pod.namespace !== first?.namespace || !has(pod, fewer) || has(pod, left),
    );
    if (fewer.length > 0 && isAsNarrow) left = fewer;
  }
  return left.length === 0 ? undefined : { matchLabels: Object.fromEntries(left) };
}

/** Returns a peer that selects pods of one workload as {@link commonSelector} does; undefined where it has no label. */
export function podPeer(pods: readonly Pod[], namespace: string, index: PolicyIndex): object | undefined {
  const [first] = pods;
  const podSelector = commonSelector(pods, index);
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
