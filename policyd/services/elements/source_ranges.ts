import { type Address, familyOf, type Family } from "../../../kernel/ip/address.ts";
import { cidrContains, hostCidr } from "../../../kernel/ip/cidr.ts";
import { ENFORCE_SOURCE_RANGES, type Service } from "../../../objects/model.ts";
import type { CompileContext } from "../rules/context.ts";
import type { Frontend } from "../../../objects/socket_refusal.ts";
import { virtualAddresses } from "./frontends.ts";
import { type AddressRange, joinedRanges } from "../../../kernel/ip/ranges.ts";

/** Returns whether only some sources may use a Service's frontends of a type (see {@link allowedSources}). */
export function isRestricted({ loadBalancerSourceRanges, annotations }: Service, type: Frontend["type"]): boolean {
  if (loadBalancerSourceRanges === undefined || type === "cluster") return false;
  return type === "load balancer" || annotations[ENFORCE_SOURCE_RANGES] === "true";
}

/**
 * Returns the sources that may use a frontend (LB-06); undefined if everyone may. The list is empty if all ranges are
 * of the other family or were invalid.
 *
 * The ranges apply only to the load balancer's addresses, or with the annotation `drawbridge.dev/enforce-source-ranges:
 * "true"` to every external frontend. If a node is within the ranges, the load balancer's addresses are allowed too: a
 * node that has such an address itself uses it as the source of its own packets to it.
 */
export function allowedSources(
  service: Service,
  frontend: Frontend,
  family: Family,
  { primaryAddresses }: CompileContext,
): readonly AddressRange[] | undefined {
  const { loadBalancerSourceRanges: ranges } = service;
  if (ranges === undefined || !isRestricted(service, frontend.type)) return undefined;
  const isWithin = (address: Address): boolean => ranges.some((range) => cidrContains(range, address));
  const isNodeWithin = primaryAddresses.some((address) => familyOf(address) === family && isWithin(address));
  const own = isNodeWithin ? virtualAddresses(service).map((address) => hostCidr(address)) : [];
  return joinedRanges([...ranges, ...own], family);
}
