import { bridgeAddress } from "../../objects/nodes/node_addresses.ts";
import { type Cidr, doOverlap, formatCidr, networkAddress } from "../../kernel/ip/cidr.ts";
import type { KernelState, Step } from "./route_kernel/kernel_state.ts";
import type { ClusterNodes, RouteOptions } from "./surroundings.ts";

/**
 * Returns the steps that take gateways of earlier pod CIDRs from the bridge (STATE-08). Such an address is the first of
 * its network, as ADDs give it, in a pod CIDR that this node or another has now, and no record of a pod needs it. It
 * stays where the kernel would remove others with it: those of the same network (secondary addresses, ifa_flags).
 */
export function leftoverSteps(
  { own, others }: ClusterNodes,
  { bridge, uses }: RouteOptions,
  { links, addresses }: KernelState,
): readonly Step[] {
  const index = links.find(({ name }) => name === bridge)?.index;
  if (index === undefined || uses === undefined) return [];
  const gateways = new Set((own?.podCidrs ?? []).map((cidr) => formatCidr(gatewayOf(cidr))));
  const podCidrs = [...others, ...(own === undefined ? [] : [own])].flatMap((node) => node.podCidrs);
  const isInTheWay = (network: Cidr): boolean =>
    !gateways.has(formatCidr(network)) && podCidrs.some((cidr) => doOverlap(cidr, network));
  const ofBridge = addresses.filter((one) => one.index === index);
  const networkOf = (cidr: Cidr): string => formatCidr({ ...cidr, address: networkAddress(cidr) });
  return ofBridge
    .map(({ address }) => address)
    .filter((address) => formatCidr(gatewayOf(address)) === formatCidr(address))
    .filter((address) => ofBridge.filter((one) => networkOf(one.address) === networkOf(address)).length === 1)
    .filter((address) => isInTheWay(address) && !uses(address))
    .map((address) => ({ type: "delete-address", index, address }));
}

/** Returns the address that the bridge has for pods of a CIDR, with the length of its network. */
function gatewayOf(cidr: Cidr): Cidr {
  return { address: bridgeAddress(cidr) ?? networkAddress(cidr), prefixLength: cidr.prefixLength };
}
