import { canonicalRangeSets } from "../../ipam/range.ts";
import { problemOf } from "../../kernel/error.ts";
import { type Cidr, cidrFamily, formatCidr } from "../../kernel/ip/cidr.ts";
import type { NodeJudge } from "../../objects/nodes/node_judge.ts";

/** The prefixes from which this node's pods get their addresses. */
export interface PodRanges {
  /** One of each family, the cluster's first family first; undefined while none can be used. */
  readonly ranges: readonly Cidr[] | undefined;
  /** Problems of the ranges, with the way out; the ranges may still be usable. */
  readonly problems: readonly string[];
}

/**
 * Returns the pod CIDRs that are believed of this node: those of its Node object, or the configuration's where it has
 * none (POD-17). Ranges that would give one address to two pods or nodes are refused.
 */
export function podRanges(nodeName: string, judge: NodeJudge, configured: readonly Cidr[]): PodRanges {
  const { ownCidrs: ranges, judged } = judge;
  if (ranges.length === 0) return { ranges: undefined, problems: [waiting(nodeName, judged.nodes.has(nodeName))] };
  const conflict = conflictIn(ranges) ?? ranges.map((range) => judge.rivalOf(range)).find((one) => one !== undefined);
  if (conflict !== undefined) {
    const problem = `Node ${nodeName}: pod CIDRs ${textOf(ranges)}: ${conflict}; pods get no addresses from them`;
    return { ranges: undefined, problems: [problem] };
  }
  const isContradiction = configured.length > 0 && textOf(configured) !== textOf(ranges);
  const contradiction =
    `podCIDRs: ${textOf(configured)}, but Node ${nodeName} has ${textOf(ranges)}, which is used because other nodes ` +
    "route to it; remove podCIDRs from the configuration or make it the same";
  return { ranges, problems: isContradiction ? [contradiction] : [] };
}

/** Formats prefixes for people. */
export function textOf(cidrs: readonly Cidr[]): string {
  return cidrs.map(formatCidr).join(", ");
}

function waiting(nodeName: string, isThere: boolean): string {
  if (!isThere) {
    return `there is no Node object ${nodeName}, so no pod can have an address: nodeName has to be the name the kubelet registers`;
  }
  return (
    `Node ${nodeName} has no spec.podCIDRs that can be used, so no pod can have an address: let kube-controller-manager ` +
    "assign them (--allocate-node-cidrs=true and --cluster-cidr; with kubeadm networking.podSubnet), or give podCIDRs in " +
    "the configuration"
  );
}

function conflictIn(ranges: readonly Cidr[]): string | undefined {
  const families = ranges.map(cidrFamily);
  if (new Set(families).size < families.length) return "expected at most one prefix of each family";
  const sets = ranges.map((range) => [{ subnet: formatCidr(range) }]);
  return problemOf(() => canonicalRangeSets(sets, "spec.podCIDRs"));
}
