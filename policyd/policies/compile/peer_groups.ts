import type { Cidr } from "../../../kernel/ip/cidr.ts";
import { rangeOf, unitedRanges, withoutRanges } from "../../../kernel/ip/ranges.ts";
import type { ClusterNetworkPolicy, Labels, LabelSelector, NetworkPolicy } from "../../../objects/model.ts";
import { LINK_DESTINATIONS } from "../../../objects/nodes/node_addresses.ts";
import { digest } from "./digest.ts";
import type { NameGroup, NodeGroup, PodGroup, RangeGroup } from "./profile.ts";
import { isEmptySelector, isSelected, selectorIdentity } from "./selector.ts";

/** A pod as selectors see it; never a finished or host-network pod, which they do not select (POL-54, POL-57). */
export interface SelectablePod {
  readonly namespace: string;
  readonly labels: Labels;
  /** Includes `kubernetes.io/metadata.name`, also for a namespace that is missing among the objects (POL-24). */
  readonly namespaceLabels: Labels;
}

/**
 * Returns the group of pods of a peer.
 *
 * @param ownNamespace where a peer without a namespaceSelector selects
 */
export function podGroup(
  { podSelector, namespaceSelector }: Pick<PodGroup, "podSelector" | "namespaceSelector">,
  ownNamespace: string,
): PodGroup {
  const pods = podSelector === undefined || isEmptySelector(podSelector) ? undefined : podSelector;
  const namespace = namespaceSelector === undefined ? ownNamespace : undefined;
  const identity = [
    "pods",
    namespace ?? null,
    namespaceSelector === undefined ? null : selectorIdentity(namespaceSelector),
    pods === undefined ? null : selectorIdentity(pods),
  ];
  return Object.freeze({ type: "pods", key: digest(identity), namespace, namespaceSelector, podSelector: pods });
}

/** Returns the group of nodes that a selector selects. */
export function nodeGroup(selector: LabelSelector): NodeGroup {
  return Object.freeze({ type: "nodes", key: digest(["nodes", selectorIdentity(selector)]), selector });
}

/** Returns the group of addresses in prefixes, without the exceptions (POL-25). */
export function rangeGroup(cidrs: readonly Cidr[], except: readonly Cidr[] = []): RangeGroup {
  const ranges = withoutRanges(unitedRanges(cidrs.map(rangeOf)), except.map(rangeOf));
  const identity = ranges.map(({ first, last }) => `${typeof first} ${first} ${last}`);
  return Object.freeze({ type: "ranges", key: digest(["ranges", identity]), ranges: Object.freeze(ranges) });
}

/** The destinations on the link (CNP-20). Rules compare with this object, not with its key, which a policy's group may have. */
export const LINK: RangeGroup = rangeGroup(LINK_DESTINATIONS);

/** Returns the group of addresses that stand for domain names. */
export function nameGroup(names: readonly string[]): NameGroup {
  const sorted = Object.freeze([...new Set(names)].sort());
  return Object.freeze({ type: "names", key: digest(["names", sorted]), names: sorted });
}

export function groupHasPod(group: PodGroup, { namespace, labels, namespaceLabels }: SelectablePod): boolean {
  if (group.namespaceSelector === undefined) {
    if (group.namespace !== namespace) return false;
  } else if (!isSelected(group.namespaceSelector, namespaceLabels)) return false;
  return group.podSelector === undefined || isSelected(group.podSelector, labels);
}

/** Returns whether a node with these labels is in a group. */
export function groupHasNode({ selector }: NodeGroup, labels: Labels): boolean {
  return isSelected(selector, labels);
}

/** Returns whether a policy selects a pod, which for a NetworkPolicy is one of its namespace. */
export function subjectSelects(policy: NetworkPolicy | ClusterNetworkPolicy, pod: SelectablePod): boolean {
  if (policy.kind === "NetworkPolicy") return isSelected(policy.podSelector, pod.labels);
  const { namespaceSelector, podSelector } = policy.subject;
  if (!isSelected(namespaceSelector, pod.namespaceLabels)) return false;
  return podSelector === undefined || isSelected(podSelector, pod.labels);
}
