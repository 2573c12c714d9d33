import type { Address } from "../../kernel/ip/address.ts";
import { cidrContains } from "../../kernel/ip/cidr.ts";
import { isLoopback } from "../../kernel/ip/special.ts";
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
