import type { Address } from "../../kernel/ip/address.ts";
import { addressPlus, bitsOf } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { cidrFamily, lastAddress, networkAddress, parseCidr } from "../../kernel/ip/cidr.ts";
import type { Node } from "./model.ts";

/**
 * Returns the addresses at which a node itself takes packets, each as its Node object implies it: those it has there and, of each pod CIDR,
 * the bridge's own (POD-08), that of all hosts of the subnet (IPv4, RFC 919 section 7) and that of its router (IPv6, RFC 4291 section 2.6.1).
 * A policy about a node that knew only the first would be passed by all others.
 */
export function addressesOfNode({ addresses, podCidrs }: Pick<Node, "addresses" | "podCidrs">): readonly Address[] {
  return [...new Set([...addresses.map(({ address }) => address), ...podCidrs.flatMap(addressesOfBridge)])];
}

function addressesOfBridge(cidr: Cidr): readonly Address[] {
  const family = cidrFamily(cidr);
  // Of less than four addresses none is the bridge's by itself.
  if (bitsOf(family) - cidr.prefixLength < 2) return [];
  const network = networkAddress(cidr);
  const gateway = addressPlus(network, 1n);
  return [...(gateway === undefined ? [] : [gateway]), family === 4 ? lastAddress(cidr) : network];
}

/**
 * Destinations that a node takes packets to without having them: what is sent there from a pod arrives at its own node and nowhere
 * else. No object says so, and which node that is depends on who sends.
 */
export const LINK_DESTINATIONS: readonly Cidr[] = Object.freeze(
  ["224.0.0.0/4", "255.255.255.255/32", "fe80::/10", "ff00::/8"].map((text) => parseCidr(text)),
);
