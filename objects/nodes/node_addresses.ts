import { type Address, addressPlus, bitsOf } from "../../kernel/ip/address.ts";
import { type Cidr, cidrFamily, lastAddress, networkAddress } from "../../kernel/ip/cidr.ts";
import { bothFamilies, BROADCAST, LINK_LOCAL, MULTICAST } from "../../kernel/ip/special.ts";
import type { Node } from "../model.ts";
import { isReserved } from "./reserved_addresses.ts";

/**
 * Returns the addresses at which a node itself takes packets, as its Node object implies them: its own addresses and,
 * for each pod CIDR, the bridge's address (POD-08), the broadcast address (IPv4, RFC 919 section 7) and the
 * subnet-router anycast address (IPv6, RFC 4291 section 2.6.1). A policy about a node that covered only its own
 * addresses could be bypassed by the others.
 */
export function addressesOfNode({ addresses, podCidrs }: Pick<Node, "addresses" | "podCidrs">): readonly Address[] {
  return [...new Set([...addresses.map(({ address }) => address), ...podCidrs.flatMap(addressesOfBridge)])];
}

function addressesOfBridge(cidr: Cidr): readonly Address[] {
  const family = cidrFamily(cidr);
  // A range of less than four addresses has no address of its own for the bridge.
  if (bitsOf(family) - cidr.prefixLength < 2) return [];
  const gateway = bridgeAddress(cidr);
  return [...(gateway === undefined ? [] : [gateway]), family === 4 ? lastAddress(cidr) : networkAddress(cidr)];
}

/** Returns the address that the bridge has for pods of a CIDR (POD-08); undefined where the CIDR has no second one. */
export function bridgeAddress(cidr: Cidr): Address | undefined {
  return addressPlus(networkAddress(cidr), 1n);
}

/**
 * Destinations whose packets a node takes although it does not have the addresses: what a pod sends there arrives at
 * the pod's own node and nowhere else. No object states that, and the node depends on the sender.
 */
export const LINK_DESTINATIONS: readonly Cidr[] = Object.freeze([...bothFamilies(MULTICAST), BROADCAST, LINK_LOCAL[6]]);

/** Returns a node's addresses, internal ones first: nodes and pods of a cluster use those among each other. */
export function internalFirst(addresses: Node["addresses"]): readonly Address[] {
  return (["InternalIP", "ExternalIP"] as const).flatMap((wanted) =>
    addresses.flatMap(({ type, address }) => (type === wanted ? [address] : [])),
  );
}

/** Returns a node's InternalIPs, each once. */
export function internalAddresses({ addresses }: Pick<Node, "addresses">): readonly Address[] {
  return [...new Set(addresses.flatMap(({ type, address }) => (type === "InternalIP" ? [address] : [])))];
}

/** Returns a node's InternalIPs, without those that no node can have. */
export function usableOf(node: Node | undefined): readonly Address[] {
  return node === undefined ? [] : internalAddresses(node).filter((address) => !isReserved(address));
}
