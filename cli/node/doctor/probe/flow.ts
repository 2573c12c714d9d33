import { type Address, type Family, familyOf, parseAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import { cidrContains } from "../../../../kernel/ip/cidr.ts";
import { LINK_LOCAL } from "../../../../kernel/ip/special.ts";
import { MAIN_TABLE, type Route } from "../../../../kernel/route/route.ts";
import { bridgeAddress } from "../../../../objects/nodes/node_addresses.ts";
import { isOurs } from "../../../../policyd/routes/own_routes.ts";
import { TUNNEL } from "../../../../policyd/routes/tunnel.ts";
import { type CheckedLink, seen } from "../../../../policyd/problems/check.ts";
import type { NodeAddress, NodeFacts } from "../facts.ts";

/** The needs of pods and their node, in the order in which findings list them. */
export const NEEDS = [
  "pod to pod",
  "node to pod",
  "pod to node",
  "pod to another node",
  "pod to a Service",
  "pod to outside",
] as const;

/** A flow of one packet from a probe pod or the node, and how its arrival is known. */
export interface ProbeFlow {
  readonly need: (typeof NEEDS)[number];
  readonly protocol: "tcp" | "udp";
  readonly from: "pod" | "node";
  readonly source: Address;
  readonly destination: Address;
  readonly port: number;
  /**
   * By an answer, by a socket of ours in the second pod, or by a packet that has passed the last hook before the node's
   * own sockets or before a link.
   */
  readonly arrives: "answered" | "received" | "at a socket" | "at a link";
  /** Of the IP packet, in bytes, for UDP. */
  readonly length: number;
  /** Whether the tunnel carries it, whose own packets may get lost, too. */
  readonly isTunnelled: boolean;
}

/** A port that many pods serve. Nothing listens on it in ours, so they refuse it. */
const POD_PORT = 8080;
/** A port on which nothing listens on a node, so that it refuses it (RFC 863). */
const CLOSED_PORT = 9;
/** DNS, and API servers: tried on the node where something listens. */
const NODE_PORTS = [
  ["udp", 53],
  ["tcp", 53],
  ["tcp", 443],
  ["tcp", 6443],
] as const;
/** Documentation addresses (RFC 5737, RFC 3849), which nobody has. */
const OUTSIDE = { 4: parseAddress("203.0.113.7"), 6: parseAddress("2001:db8:ffff::7") } as const;
/** The most other nodes that are tried in one family. */
const MOST_NODES = 4;
const SHORT = 64;

/** Returns the flows between the probe pods and everything that pods need, in the families that they have. */
export function probeFlows(
  facts: NodeFacts,
  pods: readonly [readonly Address[], readonly Address[]],
  services: readonly { readonly address: Address; readonly port: number }[],
): readonly ProbeFlow[] {
  return FAMILIES.flatMap((family) => {
    const [first, second] = pods.map((addresses) => addresses.find((address) => familyOf(address) === family));
    if (first === undefined || second === undefined) return [];
    return flowsOf(facts, family, [first, second], services);
  });
}

function flowsOf(
  facts: NodeFacts,
  family: Family,
  [first, second]: readonly [Address, Address],
  services: readonly { readonly address: Address; readonly port: number }[],
): readonly ProbeFlow[] {
  const full = mtuOf(facts);
  const fromPod = { from: "pod", source: first, arrives: "answered", length: full, isTunnelled: false } as const;
  const tcp = { ...fromPod, protocol: "tcp" } as const;
  const udp = { ...fromPod, protocol: "udp" } as const;
  const routes = (seen(facts.routes) ?? []).filter((route) => route.family === family && route.table === MAIN_TABLE);
  const uplink = routes.find(({ destination }) => destination === undefined)?.outputInterface;
  const addresses = seen(facts.addresses) ?? [];
  const gateway = addressOn(addresses, linkOf(facts, facts.place.bridge)?.index, family);
  const own = addressOn(addresses, uplink, family) ?? gateway;
  const toPod = { need: "pod to pod", destination: second, port: POD_PORT } as const;
  const flows: ProbeFlow[] = [
    { ...tcp, ...toPod },
    { ...udp, ...toPod, arrives: "received" },
  ];
  if (gateway !== undefined) {
    const fromNode = { ...toPod, need: "node to pod", from: "node", source: gateway } as const;
    flows.push({ ...tcp, ...fromNode }, { ...udp, ...fromNode, arrives: "received" });
  }
  for (const [protocol, port] of NODE_PORTS) {
    if (own === undefined || !(protocol === "udp" ? facts.udpPorts : facts.tcpPorts).has(port)) continue;
    const arrives = protocol === "udp" ? "at a socket" : "answered";
    flows.push({ ...fromPod, need: "pod to node", protocol, destination: own, port, arrives, length: SHORT });
  }
  for (const { destination, isTunnelled } of otherNodes(facts, routes)) {
    const toNode = { need: "pod to another node", destination, port: CLOSED_PORT, isTunnelled } as const;
    flows.push({ ...tcp, ...toNode }, { ...udp, ...toNode, arrives: "at a link" });
  }
  const service = services.find(({ address }) => familyOf(address) === family);
  if (service !== undefined) {
    flows.push({ ...tcp, need: "pod to a Service", destination: service.address, port: service.port });
  }
  if (uplink !== undefined) {
    const toOutside = {
      need: "pod to outside",
      destination: OUTSIDE[family],
      arrives: "at a link",
      length: SHORT,
    } as const;
    flows.push({ ...tcp, ...toOutside, port: 443 }, { ...udp, ...toOutside, port: 53 });
  }
  return flows;
}

function mtuOf(facts: NodeFacts): number {
  const found = seen(facts.network);
  return (found?.kind === "network" ? found.mtu : undefined) || (linkOf(facts, facts.place.bridge)?.mtu ?? SHORT);
}

function linkOf({ links }: NodeFacts, link: string): CheckedLink | undefined {
  return (seen(links) ?? []).find(({ name }) => name === link);
}

/** Returns the first address of a link but for those that are valid only there (fe80::/10). */
export function addressOn(
  addresses: readonly NodeAddress[],
  link: number | undefined,
  family: Family,
): Address | undefined {
  return addresses
    .filter(({ index, address }) => index === link && familyOf(address.address) === family)
    .map(({ address }) => address.address)
    .find((address) => !cidrContains(LINK_LOCAL[6], address));
}

/** Returns the addresses of other nodes' bridges to which our routes lead: at most half of them by the tunnel. */
function otherNodes(
  facts: NodeFacts,
  routes: readonly Route[],
): readonly { readonly destination: Address; readonly isTunnelled: boolean }[] {
  const tunnel = linkOf(facts, TUNNEL.name)?.index;
  const found = routes.flatMap((route) => {
    if (!isOurs(route) || route.destination === undefined || route.gateway === undefined) return [];
    const destination = bridgeAddress(route.destination);
    return destination === undefined ? [] : [{ destination, isTunnelled: route.outputInterface === tunnel }];
  });
  const [tunnelled, direct] = [true, false].map((is) => found.filter(({ isTunnelled }) => isTunnelled === is));
  const half = MOST_NODES / 2;
  return [...(tunnelled ?? []).slice(0, half), ...(direct ?? []).slice(0, half)];
}
