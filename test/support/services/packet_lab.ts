import assert from "node:assert/strict";
import { type AttachmentRecord, listAttachments } from "../../../cni/attachment/attachment.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { type Address, type Family, familyOf, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { formatCidr, hostCidr, parseCidr } from "../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { newAddress } from "../../../kernel/route/interface_address.ts";
import { newRoute } from "../../../kernel/route/route.ts";
import { add } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { connect, routeTo, type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import type { Places } from "../evaluate/arbitrary_cluster.ts";

/** A sender and responder: a pod, a node or a host, with its addresses. */
export interface Party {
  readonly namespace: LabNamespace;
  readonly addresses: Readonly<Record<Family, Address>>;
}

/**
 * Two nodes, a router and a host behind the router, for which random clusters are generated. No table is loaded; the
 * second node never has any.
 */
export interface PacketLab {
  readonly nodes: TwoNodes;
  readonly attachments: readonly AttachmentRecord[];
  readonly places: Places;
  /** All senders and responders: the pods, nodes, router and host. */
  readonly parties: readonly Party[];
  /** Returns a value with the lab's IPv4 addresses in its texts replaced by those of IPv6. */
  readonly twin: <T>(value: T) => T;
}

const LOCAL_PODS = 3;
const REMOTE_PODS = 2;
/** An IPv4 address and its counterpart in IPv6. */
type Pair = readonly [ipv4: string, ipv6: string];

const VIRTUAL = {
  clusterIps: numbered([1, 2, 3, 4], (n) => [`10.96.0.${n}`, `fd00:96::${n}`]),
  externalIps: numbered([129, 130], (n) => [`203.0.113.${n}`, `2001:db8:ffff::${n}`]),
  balancerIps: numbered([200, 201], (n) => [`203.0.113.${n}`, `2001:db8:ffff::${n}`]),
} as const;
/** One more address of the node, on its loopback device. */
const FURTHER: Pair = ["203.0.113.77", "2001:db8:ffff::77"];
const FURTHER_RANGE: Pair = ["203.0.113.64/26", "2001:db8:ffff::70/124"];
const VIRTUAL_RANGES: readonly Pair[] = [
  ["10.96.0.0/24", "fd00:96::/64"],
  ["203.0.113.0/24", "2001:db8:ffff::/64"],
];
const HOST: Pair = ["198.51.100.9", "2001:db8:99::9"];
const HOST_ROUTER: Pair = ["198.51.100.1", "2001:db8:99::1"];
const HOST_RANGE: Pair = ["198.51.100.0/24", "2001:db8:99::/64"];
/** A pod's address that slices contain but no pod has. */
const MISSING: Pair = ["10.244.1.200", "fd00:244:1::200"];
const LINK_LOCAL: Pair = ["169.254.1.1", "fe80::1:1"];

/** Addresses with a counterpart in addition to those that the lab assigns. */
const SPECIAL: readonly Pair[] = [
  FURTHER,
  FURTHER_RANGE,
  HOST,
  HOST_RANGE,
  MISSING,
  LINK_LOCAL,
  ["127.0.0.1", "::1"],
  ["IPv4", "IPv6"],
];

/** Makes the lab. */
export function packetLab(lab: Lab, bridgeNetfilter: boolean): PacketLab {
  const nodes = twoNodes(lab, { bridgeNetfilter, reversePathFilter: 1 });
  const { router, node1, node2 } = nodes;
  const host = joinHost(lab, router);
  const near = attachPods(lab, node1, "near", LOCAL_PODS);
  const far = attachPods(lab, node2, "far", REMOTE_PODS);
  node1.node.route.requestAll(
    FURTHER.map((text) => newAddress(node1.node.link("lo").index, hostCidr(parseAddress(text)))),
  );
  for (const range of VIRTUAL_RANGES) {
    for (const [i, text] of range.entries()) {
      router.route.request(newRoute(routeTo(parseCidr(text), node1.addresses[i === 0 ? 0 : 1])));
    }
  }
  // By default the kernel sends a sender one refusal a second; here each probe waits for its own.
  for (const key of ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"]) node1.node.writeSysctl(key, "0");

  const own = pairOf(node1.addresses);
  const other = pairOf(node2.addresses);
  const bridge = pairOf(node1.gateways);
  const gate = pairOf(node1.routerAddresses);
  const podsOf = (parties: readonly Party[]): readonly Pair[] =>
    parties.map(({ addresses }) => pairOf([addresses[4], addresses[6]]));
  const [nearRange, farRange] = [node1, node2].map(({ podCidrs: [v4, v6] }): Pair => [formatCidr(v4), formatCidr(v6)]);
  assert.ok(nearRange !== undefined && farRange !== undefined);
  const link: Pair = ["192.0.2.8/29", "2001:db8:0:1::/64"];
  const first = ([v4]: Pair): string => v4;
  const [caller] = podsOf(far);
  assert.ok(caller !== undefined);
  const places: Places = {
    clusterIps: VIRTUAL.clusterIps.map(first),
    externalIps: [...VIRTUAL.externalIps.map(first), own[0]],
    balancerIps: VIRTUAL.balancerIps.map(first),
    nodeIps: [own[0], bridge[0], FURTHER[0]],
    otherNode: other[0],
    localPods: podsOf(near).map(first),
    remotePods: podsOf(far).map(first),
    others: [
      { address: HOST[0], nodeName: undefined },
      { address: own[0], nodeName: "n1" },
      { address: other[0], nodeName: "n2" },
      { address: MISSING[0], nodeName: "n1" },
      { address: LINK_LOCAL[0], nodeName: undefined },
    ],
    outside: [gate[0], HOST[0], caller[0]],
    sourceRanges: [HOST_RANGE[0], link[0], farRange[0]],
    podCidrs: [nearRange[0], farRange[0]],
    chosenNodePorts: FURTHER_RANGE[0],
  };
  const here: readonly Pair[] = [own, other, bridge, gate, link, nearRange, farRange];
  const twins = new Map([...Object.values(VIRTUAL).flat(), ...podsOf([...near, ...far]), ...here, ...SPECIAL]);
  const ends = [
    { namespace: node1.node, addresses: { 4: node1.addresses[0], 6: node1.addresses[1] } },
    { namespace: node2.node, addresses: { 4: node2.addresses[0], 6: node2.addresses[1] } },
    { namespace: router, addresses: { 4: node1.routerAddresses[0], 6: node1.routerAddresses[1] } },
    { namespace: host, addresses: { 4: parseAddress(HOST[0]), 6: parseAddress(HOST[1]) } },
  ];
  return {
    nodes,
    attachments: near.map(({ record }) => record),
    places,
    parties: [...near, ...far, ...ends],
    twin: <T>(value: T) => replaced(value, twins) as T,
  };
}

function joinHost(lab: Lab, router: LabNamespace): LabNamespace {
  const host = lab.namespace("host");
  const withLength = ([v4, v6]: Pair) => [parseCidr(`${v4}/24`), parseCidr(`${v6}/64`)];
  connect(
    { namespace: router, link: "to-host", mac: parseMac("02:00:00:00:09:01"), addresses: withLength(HOST_ROUTER) },
    { namespace: host, link: "uplink", mac: parseMac("02:00:00:00:09:02"), addresses: withLength(HOST) },
  );
  for (const text of HOST_ROUTER) host.route.request(newRoute(routeTo(undefined, parseAddress(text))));
  return host;
}

function attachPods(lab: Lab, wired: WiredNode, name: string, count: number) {
  const pods = Array.from({ length: count }, (_, i): LabPod => lab.pod(`${name}${i}`));
  for (const pod of pods) {
    const outcome = add(wired, pod);
    assert.equal(outcome.exitCode, 0, outcome.stdout);
  }
  const { records } = listAttachments(wired.node.runDir, "drawbridge", systemFileSystem(lab.calls));
  return pods.map((namespace) => {
    const record = records.find(({ containerId }) => containerId === namespace.containerId);
    const [v4, v6] = ([4, 6] as const).map(
      (family) => record?.addresses.find(({ address }) => familyOf(address) === family)?.address,
    );
    assert.ok(record !== undefined && v4 !== undefined && v6 !== undefined);
    return { namespace, record, addresses: { 4: v4, 6: v6 } };
  });
}

function numbered(numbers: readonly number[], pair: (number: number) => Pair): readonly Pair[] {
  return numbers.map(pair);
}

function pairOf([v4, v6]: readonly [Address, Address]): Pair {
  return [formatAddress(v4), formatAddress(v6)];
}

function replaced(value: unknown, twins: ReadonlyMap<string, string>): unknown {
  if (typeof value === "string") return twins.get(value) ?? value;
  if (Array.isArray(value)) return value.map((one) => replaced(one, twins));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, replaced(member, twins)]));
}
