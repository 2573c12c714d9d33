import { familyOf } from "../../../kernel/ip/address.ts";
import { cidrContains } from "../../../kernel/ip/cidr.ts";
import type { Service } from "../../cluster/model.ts";
import { isVirtualAddress } from "./frontend.ts";
import { primaryAddresses } from "./node_port.ts";
import type { Packet } from "./packet.ts";
import type { ServiceWorld } from "./world.ts";

/**
 * What a Service's loadBalancerSourceRanges say to a packet (LB-06): they hold for its load balancer's addresses alone.
 *
 * A node within the ranges may come from such an address itself: where the node has the address, its own packets to it
 * carry it as their source. Ranges of the other family alone let nobody in.
 */
export function judgeSource(world: ServiceWorld, service: Service, packet: Packet): "none" | "within" | "outside" {
  const { loadBalancerSourceRanges: ranges } = service;
  const { source, destination } = packet;
  if (ranges === undefined || !isVirtualAddress(service, destination)) return "none";
  if (ranges.some((range) => cidrContains(range, source))) return "within";
  const primary = primaryAddresses(world).filter((address) => familyOf(address) === familyOf(source));
  const isNodeAllowed = primary.some((address) => ranges.some((range) => cidrContains(range, address)));
  return isNodeAllowed && isVirtualAddress(service, source) ? "within" : "outside";
}
