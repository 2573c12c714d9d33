import { type Address, addressPlus, familyOf } from "../../kernel/ip/address.ts";
import { type Cidr, networkAddress, parseCidr } from "../../kernel/ip/cidr.ts";
import { type MacAddress, macFromBytes } from "../../kernel/ip/mac.ts";
import { newAddress } from "../../kernel/route/interface_address.ts";
import { changeLink, createVeth } from "../../kernel/route/link.ts";
import { newRoute, type RouteSpec } from "../../kernel/route/route.ts";
import { waitUntilLocal, waitUntilUp } from "../../kernel/route/readiness.ts";
import { enableForwarding, type Lab, type LabNode } from "./lab.ts";
import { HAS_IPV6, type LabNamespace, requestAll } from "./namespace.ts";

/** The settings of a topology's node. */
export interface NodeOptions {
  /**
   * Whether bridged frames pass the IP hooks; the setting is per network namespace (br_netfilter_hooks.c, brnf_net).
   * The default is the kernel's for a new namespace: true if the module is loaded.
   */
  readonly bridgeNetfilter?: boolean;
  /** net.ipv4.conf.all.rp_filter: 0 off, 1 strict, 2 loose. */
  readonly reversePathFilter?: 0 | 1 | 2;
  /** Bytes, for uplinks and, in the lab's plugin configuration, for pods; 0 is the kernel's 1500. */
  readonly mtu?: number;
}

/** A node wired to the router. */
export interface WiredNode {
  readonly node: LabNode;
  /** The node's own addresses, IPv4 and IPv6. */
  readonly addresses: readonly [Address, Address];
  /** The router's addresses on this node's link. */
  readonly routerAddresses: readonly [Address, Address];
  readonly podCidrs: readonly [Cidr, Cidr];
  /** The addresses at which pods reach their node: the first of each pod range, on the bridge (POD-08). */
  readonly gateways: readonly [Address, Address];
  readonly mtu: number;
}

export interface TwoNodes {
  readonly node1: WiredNode;
  readonly node2: WiredNode;
  readonly router: LabNamespace;
}

/** The name of a node's link to the router. */
export const UPLINK = "uplink";

const RTPROT_STATIC = 4;

/**
 * Makes two dual-stack nodes and a router between them, without any pod.
 *
 * Node n has 192.0.2.(8n+2)/29 and 2001:db8:0:n::2/64 (documentation prefixes), the router has the address before each,
 * and pods get 10.244.n.0/24 and fd00:244:n::/64. Nodes route everything else to the router, which has routes to both
 * pod ranges.
 */
export function twoNodes(lab: Lab, options: NodeOptions = {}, second: NodeOptions = options): TwoNodes {
  const router = lab.router();
  return { router, node1: wireNode(lab, router, 1, options), node2: wireNode(lab, router, 2, second) };
}

function wireNode(lab: Lab, router: LabNamespace, number: number, options: NodeOptions): WiredNode {
  const node = lab.node(`node${number}`);
  const mtu = options.mtu ?? 0;
  const networks = [parseCidr(`192.0.2.${8 * number}/29`), parseCidr(`2001:db8:0:${number}::/64`)] as const;
  const podCidrs = [parseCidr(`10.244.${number}.0/24`), parseCidr(`fd00:244:${number}::/64`)] as const;
  const wired: WiredNode = {
    node,
    routerAddresses: [hostOf(networks[0], 1n), hostOf(networks[1], 1n)],
    addresses: [hostOf(networks[0], 2n), hostOf(networks[1], 2n)],
    podCidrs,
    gateways: [hostOf(podCidrs[0], 1n), hostOf(podCidrs[1], 1n)],
    mtu,
  };
  applyOptions(node, options);
  enableForwarding(node);
  const routerLink = `to-${node.name}`;
  const prefixed = (addresses: readonly Address[]): readonly Cidr[] =>
    addresses.flatMap((address, i) =>
      hasFamilyOf(address) ? [{ address, prefixLength: networks[i]?.prefixLength ?? 0 }] : [],
    );
  connect(
    { namespace: router, link: routerLink, mac: uplinkMac(number, 1), addresses: prefixed(wired.routerAddresses) },
    { namespace: node, link: UPLINK, mac: uplinkMac(number, 2), addresses: prefixed(wired.addresses) },
    mtu,
  );
  for (const gateway of wired.routerAddresses.filter(hasFamilyOf)) {
    node.route.request(newRoute(routeTo(undefined, gateway)));
  }
  for (const [i, gateway] of wired.addresses.filter(hasFamilyOf).entries())
    router.route.request(newRoute(routeTo(wired.podCidrs[i], gateway)));
  return wired;
}

/** Whether this kernel has the family of an address or a prefix. */
export function hasFamilyOf(one: Address | Cidr): boolean {
  return familyOf(typeof one === "object" ? one.address : one) === 4 || HAS_IPV6;
}

/**
 * Returns the route to a prefix, or the default route, by a gateway; marked as an administrator's, not as Drawbridge's.
 */
export function routeTo(destination: Cidr | undefined, gateway: Address): RouteSpec {
  const family = familyOf(gateway);
  return { family, destination, gateway, outputInterface: undefined, onLink: false, protocol: RTPROT_STATIC };
}

/** One end of a cable. */
export interface CableEnd {
  readonly namespace: LabNamespace;
  readonly link: string;
  readonly mac: MacAddress;
  readonly addresses: readonly Cidr[];
}

/**
 * Joins two namespaces by a veth pair, with addresses that answer at once (nodad), both ends up.
 *
 * Returns when both ends carry packets and receive those for their addresses; earlier packets would be lost.
 */
export function connect(a: CableEnd, b: CableEnd, mtu = 0): void {
  a.namespace.route.request(
    createVeth({
      host: { name: a.link, mac: a.mac },
      peer: { name: b.link, mac: b.mac, netnsFd: b.namespace.handle.fd },
      mtu,
      master: 0,
    }),
  );
  for (const end of [a, b]) {
    const { index } = end.namespace.link(end.link);
    end.namespace.writeSysctl(`net/ipv6/conf/${end.link}/accept_ra`, "0");
    end.namespace.writeSysctl(`net/ipv6/conf/${end.link}/accept_dad`, "0");
    requestAll(end.namespace.route, [
      changeLink({ index }, { up: true }),
      ...end.addresses.map((address) => newAddress(index, address)),
    ]);
  }
  for (const end of [a, b]) {
    waitUntilUp(end.namespace.route, { name: end.link });
    for (const { address } of end.addresses) waitUntilLocal(end.namespace.route, address);
  }
}

const BRIDGE_NETFILTER = ["net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"] as const;

/**
 * Whether this kernel can pass bridged frames to the IP hooks. The lab never loads the module, which is machine-wide.
 */
export function hasBridgeNetfilter(namespace: LabNamespace): boolean {
  return BRIDGE_NETFILTER.every((key) => namespace.readSysctl(key) !== undefined);
}

/**
 * Sets whether frames that a bridge of this namespace forwards pass the IP hooks.
 *
 * @throws Error when they should and br_netfilter is not loaded
 */
export function setBridgeNetfilter(namespace: LabNamespace, isOn: boolean): void {
  if (!hasBridgeNetfilter(namespace)) {
    if (!isOn) return;
    throw new Error(`${namespace.name}: br_netfilter is not loaded: run \`modprobe br_netfilter\``);
  }
  for (const key of BRIDGE_NETFILTER) namespace.writeSysctl(key, isOn ? "1" : "0");
}

function applyOptions(node: LabNode, options: NodeOptions): void {
  if (options.bridgeNetfilter !== undefined) setBridgeNetfilter(node, options.bridgeNetfilter);
  if (options.reversePathFilter !== undefined) {
    for (const device of ["all", "default"]) {
      node.writeSysctl(`net/ipv4/conf/${device}/rp_filter`, String(options.reversePathFilter));
    }
  }
}

/** Returns a MAC address: 02 marks it as locally administered; node and end make it unique in a lab. */
function uplinkMac(node: number, end: number): MacAddress {
  return macFromBytes(Uint8Array.of(0x02, 0, 0, 0, node, end));
}

function hostOf(network: Cidr, host: bigint): Address {
  const address = addressPlus(networkAddress(network), host);
  if (address === undefined) throw new RangeError("host number out of range");
  return address;
}
