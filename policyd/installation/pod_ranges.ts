import { canonicalRangeSets } from "../../ipam/range.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { cidrContains, cidrFamily, formatCidr } from "../../kernel/ip/cidr.ts";
import { doOverlap, unfitForPods } from "../cluster/node_claims.ts";
import type { Node } from "../cluster/model.ts";

/** From which prefixes this node's pods get their addresses. */
export interface PodRanges {
  /** One of each family, the cluster's first family first; undefined while there are none that could be used. */
  readonly ranges: readonly Cidr[] | undefined;
  /** What is wrong with them, with the way out; it may be usable all the same. */
  readonly problems: readonly string[];
}

/**
 * The pod CIDRs of this node: those of its Node object, and only where that has none, the configuration's (POD-17). What would
 * give one address to two is refused: a prefix twice, one that another node has, one with this node's own address in it. Another
 * node's address in it is told alone: a kubelet writes its own, and none is to keep this node from being ready.
 *
 * @param nodes all there are, by name
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
    `podCIDRs: ${textOf(configured)}, but Node ${nodeName} has ${textOf(ranges)}, which counts, since other nodes know ` +
    "the way there; take podCIDRs out of the configuration or make it the same";
  return {
    ranges,
    problems: [...(isContradiction ? [contradiction] : []), ...addressesIn(ranges, nodeName, nodes)],
  };
}

/** Prefixes as people read them. */
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
      return `${formatCidr(range)} has in it ${formatAddress(inside.address)}, an address of Node ${own?.name}`;
    }
  }
  return undefined;
}

/** Of others what could be a node's pod CIDR counts: the rest is used by nobody (judgeNodes). */
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

/** In words. */
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
