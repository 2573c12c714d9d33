import type { NodeFacts } from "../../../cli/node/doctor/facts.ts";
import type { Severity } from "../../../policyd/problems/check.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import type { Route } from "../../../kernel/route/route.ts";
import { BESIDE_PRIORITY, ROUTE_PRIORITY } from "../../../policyd/routes/own_routes.ts";
import { foreignRoute } from "../routes/machine.ts";
import { link, nodeFacts } from "./node_facts.ts";

const HEALTHY = nodeFacts();
const LINKS = "value" in HEALTHY.links ? HEALTHY.links.value : [];
const ADDRESSES = "value" in HEALTHY.addresses ? HEALTHY.addresses.value : [];
const [UPLINK, OTHER] = [2, 9];

function routes(...all: readonly Route[]): Partial<NodeFacts> {
  return { routes: { value: all } };
}

function discarding(text: string): Partial<NodeFacts> {
  return { discarding: { value: [{ ...foreignRoute(text, 1), protocol: 80 }] } };
}

/** The route of policyd to the pods of another node. */
const TO_OTHER_NODE: Route = {
  ...foreignRoute("10.244.2.0/24", UPLINK, "192.0.2.2"),
  protocol: 107,
  priority: ROUTE_PRIORITY,
};
function beside(text: string, index: number): Route {
  return { ...foreignRoute(text, index), protocol: 107, priority: BESIDE_PRIORITY };
}

/** Returns the facts of a node with a VXLAN device of another program on our port. */
function vxlan(changes: object): Partial<NodeFacts> {
  const local = parseAddress("192.0.2.1");
  const parameters = { vni: 1, port: 4789, local, learning: false, hasMore: false, hasOwnSocket: false, ...changes };
  return { links: { value: [...LINKS, link(OTHER, "vxlan9", { kind: "vxlan", vxlan: parameters })] } };
}

const BESIDE = beside("10.244.1.9/32", OTHER);
/** A bridge of another plugin with the pods' network. */
const BRIDGE: Partial<NodeFacts> = {
  links: { value: [...LINKS, link(OTHER, "cni0", { kind: "bridge" })] },
  addresses: { value: [...ADDRESSES, { index: OTHER, address: parseCidr("10.244.1.1/24") }] },
};
const PORTS: Partial<NodeFacts> = {
  links: { value: [...LINKS, link(OTHER, "veth1a2b", { kind: "veth", master: 3 })] },
};

/** Cases of foreign routes and bridges: check, facts, severity of the gravest finding, and message. */
export const ROUTE_CASES: readonly (readonly [string, Partial<NodeFacts>, Severity, RegExp])[] = [
  [
    "pod-networks",
    discarding("10.244.1.0/30"),
    "error",
    /10\.244\.1\.0\/30 \(protocol 80, discards packets\).*of this node/,
  ],
  [
    "pod-networks",
    { ...routes(TO_OTHER_NODE), ...discarding("10.244.2.64/26") },
    "error",
    /10\.244\.2\.64\/26 .*within the pod CIDR 10\.244\.2\.0\/24 of another node/,
  ],
  [
    "pod-networks",
    routes(TO_OTHER_NODE, { ...foreignRoute("10.244.2.64/26", OTHER), protocol: 80 }),
    "error",
    /10\.244\.2\.64\/26 \(protocol 80, by link 9\)/,
  ],
  [
    "direct-routes",
    {
      directRoutes: {
        value: [true, false].map((isAnswered) => ({
          destination: parseCidr("10.244.2.0/24"),
          gateway: parseAddress("192.0.2.2"),
          to: parseAddress(isAnswered ? "10.244.2.9" : "10.244.2.1"),
          isAnswered,
        })),
      },
    },
    "info",
    /10\.244\.2\.1 does not answer by the direct route to 10\.244\.2\.0\/24 via 192\.0\.2\.2/,
  ],
  ["tunnel", vxlan({ vni: 4096, hasMore: true }), "info", /vxlan9.* VNI 4096/],
  ["tunnel", vxlan({ vni: 0, hasMore: true, hasOwnSocket: true }), "error", /vxlan9/],
  ["former-plugin", PORTS, "error", /drawbridge0 has 1 port that is not of Drawbridge \(veth1a2b\)/],
  ["former-plugin", BRIDGE, "warning", /routes of metric 106 are missing: 10\.244\.1\.2\/32, 10\.244\.1\.0\/25/],
  [
    "former-plugin",
    {
      ...BRIDGE,
      ...routes(
        ...(["10.244.1.0/25", "10.244.1.128/25"] as const).map((half) => beside(half, OTHER)),
        beside("10.244.1.2/32", 3),
      ),
    },
    "info",
    /cni0 of another plugin has the network of our pods: 10\.244\.1\.1\/24/,
  ],
  ["former-plugin", routes(BESIDE), "warning", /routes of metric 106 are left over: 10\.244\.1\.9\/32/],
];
