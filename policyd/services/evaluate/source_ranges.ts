import { familyOf } from "../../../kernel/ip/address.ts";
import { cidrContains } from "../../../kernel/ip/cidr.ts";
import type { FoundFrontend } from "./frontend.ts";
import { isVirtualAddress } from "./frontend.ts";
import { primaryAddresses } from "./node_port.ts";
import type { Packet } from "./packet.ts";
import type { ServiceWorld } from "./world.ts";

/** With the value "true" a Service's source ranges hold for every way in from outside, NodePorts among them. */
const ENFORCE_ANNOTATION = "drawbridge.dev/enforce-source-ranges";

/**
 * What a Service's loadBalancerSourceRanges say to a packet (LB-06): they hold for its load balancer's addresses alone,
 * unless it asks for more by annotation; never for its cluster IP.
 *
 * A node within the ranges may come from such an address itself: where the node has the address, its own packets to it
 * carry it as their source. Ranges of the other family alone let nobody in.
 */
export function judgeSource(
  world: ServiceWorld,
  { service, frontend }: FoundFrontend,
  packet: Packet,
): "none" | "within" | "outside" {
  const { loadBalancerSourceRanges: ranges } = service;
  const { source, destination } = packet;
  const isEnforced = service.annotations[ENFORCE_ANNOTATION] === "true";
  const isRestricted = frontend.type !== "ClusterIP" && (isEnforced || isVirtualAddress(service, destination));
  if (ranges === undefined || !isRestricted) return "none";
  if (ranges.some((range) => cidrContains(range, source))) return "within";
  const primary = primaryAddresses(world).filter((address) => familyOf(address) === familyOf(source));
  const isNodeAllowed = primary.some((address) => ranges.some((range) => cidrContains(range, address)));
  return isNodeAllowed && isVirtualAddress(service, source) ? "within" : "outside";
}
