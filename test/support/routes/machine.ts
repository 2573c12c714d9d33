import { parseAddress } from "../../../kernel/ip/address.ts";
import { type Cidr, parseCidr } from "../../../kernel/ip/cidr.ts";
import { MAIN_TABLE, type Route } from "../../../kernel/route/route.ts";
import { judge } from "../../../objects/gate/gate.ts";
import type { Node } from "../../../objects/model.ts";
import type { KernelState } from "../../../policyd/routes/route_kernel/kernel_state.ts";

export const UPLINK = 2;
const BRIDGE = 3;

/** Returns a Node as the gate makes it. */
export function node(name: string, addresses: readonly string[], podCIDRs: readonly string[]): Node {
  const verdict = judge({
    apiVersion: "v1",
    kind: "Node",
    metadata: { name },
    spec: { podCIDRs },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  });
  if (verdict.type !== "accepted" || verdict.object.kind !== "Node") throw new Error(`Node ${name}: refused`);
  return verdict.object;
}

/** Returns a route of the main table that is not ours, by a gateway or to the link itself. */
export function foreignRoute(destination: string, outputInterface: number, gateway?: string): Route {
  const cidr = parseCidr(destination);
  return {
    table: MAIN_TABLE,
    family: typeof cidr.address === "number" ? 4 : 6,
    destination: cidr.prefixLength === 0 ? undefined : cidr,
    gateway: gateway === undefined ? undefined : parseAddress(gateway),
    outputInterface,
    source: undefined,
    hasOtherNextHop: false,
    priority: 0,
    protocol: 2,
    onLink: false,
  };
}

/**
 * Returns the kernel state of a node with an uplink that has 192.0.2.1/24 and 2001:db8::1/64, a bridge, and a default
 * route only for IPv4.
 */
export function machine(changes: Partial<KernelState> = {}): KernelState {
  const at = (index: number, address: Cidr): KernelState["addresses"][number] => ({
    index,
    address,
    scope: 0,
    tentative: false,
    duplicateDetected: false,
    permanent: true,
  });
  return {
    links: [
      { index: 1, name: "lo", mtu: 65_536, up: true, hasLinkLayer: false },
      { index: UPLINK, name: "uplink", mtu: 1500, up: true, hasLinkLayer: true },
      { index: BRIDGE, name: "cni0", mtu: 1450, up: true, hasLinkLayer: true },
    ],
    addresses: [at(UPLINK, parseCidr("192.0.2.1/24")), at(UPLINK, parseCidr("2001:db8::1/64"))],
    routes: [
      foreignRoute("192.0.2.0/24", UPLINK),
      foreignRoute("2001:db8::/64", UPLINK),
      foreignRoute("0.0.0.0/0", UPLINK, "192.0.2.254"),
    ],
    rules: [],
    hasIpv6: true,
    tunnel: undefined,
    ...changes,
  };
}
