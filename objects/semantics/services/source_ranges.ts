import { familyOf } from "../../../kernel/ip/address.ts";
import { cidrContains } from "../../../kernel/ip/cidr.ts";
import { type FoundFrontend, isVirtualAddress } from "./frontend.ts";
import { primaryAddresses } from "./node_port.ts";
import { ENFORCE_SOURCE_RANGES } from "../../model.ts";
import type { Packet } from "./packet.ts";
import type { ServiceWorld } from "./world.ts";

/**
 * Checks a packet against a Service's loadBalancerSourceRanges (LB-06). They apply only to its load balancer's
 * addresses, or with the annotation to every external frontend; never to its cluster IP.
 *
 * If a node is within the ranges, packets from the load balancer's addresses are allowed too: a node that has such an
 * address uses it as the source of its own packets to it. If all ranges are of the other family, no source is allowed.
 */
export function evaluateSource(
  world: ServiceWorld,
  { service, frontend }: FoundFrontend,
  packet: Packet,
): "none" | "within" | "outside" {
  const { loadBalancerSourceRanges: ranges } = service;
  const { source, destination } = packet;
  const isEnforced = service.annotations[ENFORCE_SOURCE_RANGES] === "true";
  const isRestricted = frontend.type !== "ClusterIP" && (isEnforced || isVirtualAddress(service, destination));
  if (ranges === undefined || !isRestricted) return "none";
  if (ranges.some((range) => cidrContains(range, source))) return "within";
  const primary = primaryAddresses(world).filter((address) => familyOf(address) === familyOf(source));
  const isNodeAllowed = primary.some((address) => ranges.some((range) => cidrContains(range, address)));
  return isNodeAllowed && isVirtualAddress(service, source) ? "within" : "outside";
}
