import type { Cidr } from "../../kernel/ip/cidr.ts";
import { cidrContains } from "../../kernel/ip/cidr.ts";
import { believedAddresses } from "./believed_addresses.ts";
import { believedCidrs } from "./believed_cidrs.ts";
import type { Node } from "./model.ts";
import { usableOf } from "./node_claims.ts";
import type { JudgedNodes, JudgeOptions } from "./node_verdict.ts";

/**
 * Judges the Nodes: which pod CIDRs and which InternalIPs are whose. All parts of the daemon that believe Nodes believe this.
 *
 * A kubelet writes its own addresses, a controller the pod CIDRs. So an address costs no other node what that has: one in a
 * node's pod CIDR, in a range of Services, or that this node has, is not used; a pod CIDR is refused only for a first address
 * that was in use before it. An address that two nodes claim stays with the one that had it, and is neither's where none had.
 * Of pod CIDRs that overlap none counts but the one that did before. What overlaps this node's own, or has its address, is
 * refused.
 */
export function judgeNodes(nodes: Iterable<Node>, options: JudgeOptions): JudgedNodes {
  const sorted = [...nodes].sort((a, b) => (a.name < b.name ? -1 : 1));
  const problems = new Map<string, string[]>();
  const own = sorted.find(({ name }) => name === options.nodeName);
  const ownAddresses = usableOf(own);
  const services = usableRanges(options.serviceCidrs ?? [], own);
  const podCidrs = believedCidrs(sorted, ownAddresses, services, options, problems);
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

/** The ranges of Services by which Nodes are judged. One with this node's own address is a mistake, and says nothing about others. */
export function usableRanges(serviceCidrs: readonly Cidr[], own: Node | undefined): readonly Cidr[] {
  const addresses = usableOf(own);
  return serviceCidrs.filter((range) => !addresses.some((address) => cidrContains(range, address)));
}
