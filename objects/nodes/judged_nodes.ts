import { type Address, familyOf } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains } from "../../kernel/ip/cidr.ts";
import { believedAddresses } from "./believed_addresses.ts";
import { believedCidrs } from "./believed_cidrs.ts";
import type { Node } from "../model.ts";
import { bridgeAddress, usableOf } from "./node_addresses.ts";
import type { JudgedNodes, JudgeOptions } from "./node_verdict.ts";

/**
 * Decides which pod CIDRs and InternalIPs are believed of each Node. All parts of the daemon use this verdict.
 *
 * A kubelet writes its own addresses, a controller the pod CIDRs. So an address must not take anything from another
 * node. It is not used if it is in a node's pod CIDR, in a range of Services, or an address of this node. A pod CIDR is
 * refused for another node's address only if that is a first address that was in use before. An address that two nodes
 * claim stays with the one that had it before, and is used for neither where none had it. Of overlapping pod CIDRs only
 * one that was used before counts. A pod CIDR that overlaps this node's own, or has its address, is refused. The address
 * of a bridge for pods or of a Service, which a kubelet may name, protects no node that has another one.
 */
export function judgeNodes(nodes: Iterable<Node>, options: JudgeOptions): JudgedNodes {
  const sorted = [...nodes].sort((a, b) => (a.name < b.name ? -1 : 1));
  const problems = new Map<string, string[]>();
  const own = sorted.find(({ name }) => name === options.nodeName);
  const services = usableRanges(options.serviceCidrs ?? [], own);
  const gateways = new Set(sorted.flatMap((node) => node.podCidrs.map(bridgeAddress)));
  const certain = (node: Node | undefined): readonly Address[] =>
    certainOf(node, (address) => gateways.has(address) || services.some((range) => cidrContains(range, address)));
  const podCidrs = believedCidrs(sorted, certain, services, options, problems);
  const addresses = believedAddresses(sorted, podCidrs, services, options, problems);
  const judged = sorted.map(
    ({ name }) =>
      [
        name,
        Object.freeze({ name, addresses: addresses.get(name) ?? [], podCidrs: podCidrs.get(name) ?? [] }),
      ] as const,
  );
  return Object.freeze({ nodes: new Map(judged), problemsOf: problems });
}

/** Returns the ranges of Services to check Nodes with, without a mistaken one that has this node's own address. */
export function usableRanges(serviceCidrs: readonly Cidr[], own: Node | undefined): readonly Cidr[] {
  const addresses = certainOf(own, (address) => serviceCidrs.some((range) => cidrContains(range, address)));
  return serviceCidrs.filter((range) => !addresses.some((address) => cidrContains(range, address)));
}

/** Returns a node's addresses without those in doubt, unless it has no other one of their family. */
function certainOf(node: Node | undefined, isInDoubt: (address: Address) => boolean): readonly Address[] {
  const all = usableOf(node);
  const certain = all.filter((address) => !isInDoubt(address));
  return all.filter(
    (address) => certain.includes(address) || !certain.some((one) => familyOf(one) === familyOf(address)),
  );
}
