import { canonicalRangeSets } from "../../ipam/range.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, cidrFamily, doOverlap, formatCidr } from "../../kernel/ip/cidr.ts";
import { unfitForPods } from "../../objects/nodes/reserved_addresses.ts";
import type { Node } from "../../objects/model.ts";

/** The prefixes from which this node's pods get their addresses. */
export interface PodRanges {
  /** One of each family, the cluster's first family first; undefined while none can be used. */
  readonly ranges: readonly Cidr[] | undefined;
  /** Problems of the ranges, with the way out; the ranges may still be usable. */
  readonly problems: readonly string[];
}

/**
 * Returns the pod CIDRs of this node: those of its Node object, or the configuration's where it has none (POD-17).
 * Ranges that would give one address to two pods or nodes are refused: a duplicate prefix, a prefix of another node, or
 * a prefix that contains this node's own address. Another node's address inside the range is only reported: a kubelet
 * writes its own, and must not keep this node from being ready.
 *
 * @param nodes all Nodes, by name
 */
export function podRanges(nodeName: string, nodes: ReadonlyMap<string, Node>, configured: readonly Cidr[]): PodRanges {
  const own = nodes.get(nodeName);
  const assigned = own?.podCidrs ?? [];
  const ranges = assigned.length > 0 ? assigned : configured;
  if (ranges.length === 0) return { ranges: undefined, problems: [waiting(nodeName, own)] };
  const where = assigned.length > 0 ? `Node ${nodeName} spec.podCIDRs` : "podCIDRs";
  const conflict = conflictIn(ranges, where) ?? conflictWithOwn(ranges, own) ?? conflictWith(ranges, nodeName, nodes);
  if (conflict !== undefined) {
    return { ranges: undefined, problems: [`${where}: ${textOf(ranges)}: ${conflict}; pods get no addresses from it`] };
  }
  const isContradiction = configured.length > 0 && textOf(configured) !== textOf(ranges);
  const contradiction =
    `podCIDRs: ${textOf(configured)}, but Node ${nodeName} has ${textOf(ranges)}, which is used because other nodes ` +
    "route to it; remove podCIDRs from the configuration or make it the same";
  return {
    ranges,
    problems: [...(isContradiction ? [contradiction] : []), ...addressesIn(ranges, nodeName, nodes)],
  };
}

/** Formats prefixes for people. */
export function textOf(cidrs: readonly Cidr[]): string {
  return cidrs.map(formatCidr).join(", ");
}

function waiting(nodeName: string, own: Node | undefined): string {
  if (own === undefined) {
    return `there is no Node object ${nodeName}, so no pod can have an address: nodeName has to be the name the kubelet registers`;
  }
  return (
    `Node ${nodeName} has no spec.podCIDRs, so no pod can have an address: let kube-controller-manager assign them ` +
    "(--allocate-node-cidrs=true and --cluster-cidr; with kubeadm networking.podSubnet), or give podCIDRs in the configuration"
  );
}

function conflictIn(ranges: readonly Cidr[], where: string): string | undefined {
  const families = ranges.map(cidrFamily);
  if (new Set(families).size < families.length) return "expected at most one prefix of each family";
  try {
    canonicalRangeSets(
      ranges.map((range) => [{ subnet: formatCidr(range) }]),
      where,
    );
    return undefined;
  } catch (error) {
    if (error instanceof DrawbridgeError) return error.message;
    throw error;
  }
}

function conflictWithOwn(ranges: readonly Cidr[], own: Node | undefined): string | undefined {
  for (const range of ranges) {
    const unfit = unfitForPods(range);
    if (unfit !== undefined) return `${formatCidr(range)} ${unfit}`;
    const inside = own?.addresses.find(({ address }) => cidrContains(range, address));
    if (inside !== undefined) {
      return `${formatCidr(range)} contains ${formatAddress(inside.address)}, an address of Node ${own?.name}`;
    }
  }
  return undefined;
}

/** Compares only with valid pod CIDRs of other nodes: nobody uses the rest (judgeNodes). */
function conflictWith(ranges: readonly Cidr[], nodeName: string, nodes: ReadonlyMap<string, Node>): string | undefined {
  for (const { name, podCidrs } of nodes.values()) {
    if (name === nodeName) continue;
    for (const range of ranges) {
      const taken = podCidrs.find((other) => doOverlap(range, other) && unfitForPods(other) === undefined);
      if (taken !== undefined) return `${formatCidr(range)} overlaps with ${formatCidr(taken)} of Node ${name}`;
    }
  }
  return undefined;
}

/** Reports, in words, the addresses of other nodes inside the ranges. */
function addressesIn(ranges: readonly Cidr[], nodeName: string, nodes: ReadonlyMap<string, Node>): readonly string[] {
  return [...nodes.values()].flatMap(({ name, addresses }) =>
    addresses.flatMap(({ address }) => {
      const range = name === nodeName ? undefined : ranges.find((one) => cidrContains(one, address));
      return range === undefined
        ? []
        : [
            `Node ${name}: address ${formatAddress(address)} is in ${formatCidr(range)} of this node's pods; it is not used`,
          ];
    }),
  );
}
