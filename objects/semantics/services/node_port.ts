import { type Address, familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
import { cidrContains } from "../../../kernel/ip/cidr.ts";
import { judgeNodes } from "../../nodes/judged_nodes.ts";
import { bridgeAddress, internalFirst } from "../../nodes/node_addresses.ts";
import { specialClass } from "./address_class.ts";
import type { NotServed } from "./verdict.ts";
import type { ServiceWorld } from "./world.ts";

/**
 * Returns why an address does not serve NodePorts; undefined if it does: any local address that `nodePortAddresses`
 * does not exclude, except loopback addresses (NODE-03, NODE-04).
 */
export function nodePortRefusal(world: ServiceWorld, address: Address): NotServed | undefined {
  if (specialClass(address) === "loopback") return "loopback";
  if (!world.nodeAddresses.has(address)) return "not an address of this node";
  return isSelected(world, address) ? undefined : "not in nodePortAddresses";
}

/**
 * Returns whether another node serves NodePorts at an address, as far as its Node object and pod CIDRs imply its
 * addresses and if it is configured as this one (NODE-12).
 */
export function servesElsewhere(world: ServiceWorld, address: Address): boolean {
  const { nodes, nodeName } = world;
  if (specialClass(address) !== undefined) return false;
  const judged = judgeNodes(nodes, { nodeName }).nodes;
  return nodes.some((node) => {
    if (node.name === nodeName) return false;
    const bridges = (judged.get(node.name)?.podCidrs ?? []).map(bridgeAddress);
    const isOne = bridges.includes(address) || node.addresses.some((one) => one.address === address);
    return isOne && isSelected({ ...world, nodeName: node.name }, address);
  });
}

function isSelected(world: ServiceWorld, address: Address): boolean {
  const { nodePortAddresses } = world.configuration;
  const matches = (entry: (typeof nodePortAddresses)[number]): boolean =>
    entry === "primary" ? primaryAddresses(world).includes(address) : cidrContains(entry, address);
  return nodePortAddresses.length === 0 || nodePortAddresses.some(matches);
}

/** Returns the node's first address of each family from its Node object, internal ones first. */
export function primaryAddresses({ nodes, nodeName }: ServiceWorld): readonly Address[] {
  const ordered = internalFirst(nodes.find(({ name }) => name === nodeName)?.addresses ?? []);
  return FAMILIES.flatMap((family) => ordered.filter((address) => familyOf(address) === family).slice(0, 1));
}
