import { type Address, familyOf, FAMILIES } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains } from "../../kernel/ip/cidr.ts";
import { isLoopback } from "../../kernel/ip/special.ts";
import { bridgeAddress } from "../../objects/nodes/node_addresses.ts";
import type { NodePortAddresses } from "./rules/context.ts";

/**
 * Returns whether an address of the node serves NodePorts (NODE-04, NODE-05).
 *
 * @param configured an empty list means every address
 * @param primary the addresses that "primary" stands for
 */
export function servesNodePorts(address: Address, configured: NodePortAddresses, primary: readonly Address[]): boolean {
  if (isLoopback(address)) return false;
  if (configured.length === 0) return true;
  return configured.some((entry) => (entry === "primary" ? primary.includes(address) : cidrContains(entry, address)));
}

/**
 * Returns the addresses of another node that serve NodePorts there, as far as its Node object and its pod CIDRs imply
 * them, if that node has the same configuration.
 */
export function otherNodePorts(
  { internal, external }: { readonly internal: readonly Address[]; readonly external: readonly Address[] },
  podCidrs: readonly Cidr[],
  configured: NodePortAddresses,
): readonly Address[] {
  const named = [...internal, ...external];
  const primary = FAMILIES.flatMap((family) => named.find((address) => familyOf(address) === family) ?? []);
  const bridges = podCidrs.flatMap((cidr) => bridgeAddress(cidr) ?? []);
  return [...new Set([...named, ...bridges])].filter((address) => servesNodePorts(address, configured, primary));
}
