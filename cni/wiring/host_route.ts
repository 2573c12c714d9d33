import { type Cidr, cidrFamily } from "../../kernel/ip/cidr.ts";
import type { RouteSpec } from "../../kernel/route/route.ts";

/** Returns the node's route to a pod's address that no subnet of the bridge contains. */
export function hostRoute(destination: Cidr, bridgeIndex: number): RouteSpec {
  const family = cidrFamily(destination);
  return { family, destination, gateway: undefined, outputInterface: bridgeIndex, onLink: false };
}
