import { type Address, familyOf } from "../../../kernel/ip/address.ts";
import { cidrContains } from "../../../kernel/ip/cidr.ts";
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
  const { nodePortAddresses } = world.configuration;
  const isSelected = nodePortAddresses.some((entry) =>
    entry === "primary" ? primaryAddresses(world).includes(address) : cidrContains(entry, address),
  );
  return nodePortAddresses.length === 0 || isSelected ? undefined : "not in nodePortAddresses";
}

/** Returns the node's first address of each family from its Node object, internal ones first. */
export function primaryAddresses({ nodes, nodeName }: ServiceWorld): readonly Address[] {
  const addresses = nodes.find(({ name }) => name === nodeName)?.addresses ?? [];
  const ordered = (["InternalIP", "ExternalIP"] as const).flatMap((type) =>
    addresses.filter((entry) => entry.type === type).map(({ address }) => address),
  );
  return ([4, 6] as const).flatMap((family) => ordered.filter((address) => familyOf(address) === family).slice(0, 1));
}
