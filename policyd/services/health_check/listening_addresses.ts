import { type Address, familyOf } from "../../../kernel/ip/address.ts";
import { cidrContains } from "../../../kernel/ip/cidr.ts";
import { LINK_LOCAL } from "../../../kernel/ip/special.ts";
import type { NodePortAddresses } from "../rules/context.ts";
import type { ListeningAddress } from "../../http/http_listener.ts";
import { ANY } from "../../http/listeners.ts";
import { servesNodePorts } from "../node_port_addresses.ts";
import type { HealthCheck } from "./health_check.ts";

/**
 * Returns the addresses at which the node answers health checks: all, or those of its own that serve NodePorts.
 *
 * @param configured an empty list means every address, also one that appears later
 * @param primary the addresses that "primary" stands for
 * @param present the node's own addresses
 */
export function answeringAddresses(
  configured: NodePortAddresses,
  primary: readonly Address[],
  present: readonly Address[],
): readonly Address[] {
  if (configured.length === 0) return ANY;
  return [...new Set(present)].filter(
    // Listening at a link-local address of IPv6 needs the name of the link as well.
    (address) => servesNodePorts(address, configured, primary) && !cidrContains(LINK_LOCAL[6], address),
  );
}

/** Returns the places where a Service's check is answered. */
export function placesOf(check: HealthCheck | undefined, addresses: readonly Address[]): readonly ListeningAddress[] {
  if (check === undefined) return [];
  const { port, localEndpoints } = check;
  return addresses
    .map((address): ListeningAddress => ({ family: familyOf(address), address, port }))
    .filter(({ family }) => localEndpoints.has(family));
}
