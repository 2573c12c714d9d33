import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { type Address, familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
import { hostCidr } from "../../../kernel/ip/cidr.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import type { ProtectedSocket } from "../../../objects/socket_refusal.ts";
import { claim, keyOf } from "./frontend_element.ts";
import type { NodePortAddresses } from "../rules/context.ts";
import { ADDRESS_SETS, PROTECTED_SOCKETS } from "../rules/frontend_sets.ts";
import { joinedRanges, rangeOf, withoutRanges } from "../../../kernel/ip/ranges.ts";
import { bothFamilies, EVERY_ADDRESS, LOOPBACK } from "../../../kernel/ip/special.ts";

/** Returns the elements of a pod of this node: its addresses as a local pod's, and its pairs with itself (POD-12). */
export function localPodElements(addresses: readonly Address[]): readonly DesiredElement[] {
  return addresses.flatMap((address) => {
    const family = familyOf(address);
    return [
      claim(`${ADDRESS_SETS.localPods}${family}`, [address]),
      claim(`${ADDRESS_SETS.hairpin}${family}`, [address, address]),
    ];
  });
}

/** Returns the elements for addresses at which another node serves node ports (node_port_addresses.ts). */
export function otherNodePortElements(addresses: readonly Address[]): readonly DesiredElement[] {
  return addresses.map((address) => claim(`${ADDRESS_SETS.otherNodePorts}${familyOf(address)}`, [address]));
}

/** Returns the elements for sockets that no node port takes (CLAIM-01). */
export function protectedElements(sockets: readonly ProtectedSocket[]): readonly DesiredElement[] {
  return sockets.map(({ address, protocol, port }) =>
    claim(`${PROTECTED_SOCKETS}${familyOf(address)}`, keyOf({ type: "cluster", address, port }, protocol)),
  );
}

/**
 * Returns the elements for the addresses that serve NodePorts if the node has them. The kernel checks for each
 * connection which ones the node has, so an address that appears later is served at once (NODE-03, NODE-04). Loopback
 * addresses are never among them: no answer could reach a client there.
 *
 * @param configured an empty list means every address
 * @param primary the addresses that "primary" stands for
 */
export function nodePortElements(
  configured: NodePortAddresses,
  primary: readonly Address[],
): readonly DesiredElement[] {
  const cidrs = configured.flatMap((entry) =>
    entry === "primary" ? primary.map((address) => hostCidr(address)) : [entry],
  );
  return FAMILIES.flatMap((family) =>
    withoutRanges(joinedRanges(configured.length === 0 ? bothFamilies(EVERY_ADDRESS) : cidrs, family), [
      rangeOf(LOOPBACK[family]),
    ]).map((range) => claim(`${ADDRESS_SETS.nodePorts}${family}`, [range])),
  );
}

/** Returns the elements that Services need for a pod of this node: those of its own addresses. */
export function serviceElements({ addresses }: AttachmentRecord): readonly DesiredElement[] {
  return localPodElements(addresses.map(({ address }) => address));
}
