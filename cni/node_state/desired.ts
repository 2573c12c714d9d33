import type { AttachmentRecord, RecordedHost } from "../../ipam/attachment.ts";
import type { Address, Family } from "../../kernel/ip/address.ts";
import { familyOf } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { cidrContains, formatCidr } from "../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";

/** A bridge with its ports, as the pods on it need them. */
export interface DesiredBridge {
  readonly name: string;
  /** Those that ADDs have left it with. Each of them is right; the first is given to a bridge that has another. */
  readonly macs: readonly MacAddress[];
  /** Likewise, in bytes. */
  readonly mtus: readonly number[];
  readonly addresses: readonly Cidr[];
  /** Pods' addresses that need a route of their own. */
  readonly routes: readonly Cidr[];
  readonly families: readonly Family[];
  /** Settings of the bridge's own, by their keys. */
  readonly settings: ReadonlyMap<string, string>;
  /** By the names of their links. */
  readonly ports: ReadonlyMap<string, DesiredPort>;
  /** Addresses that several records have: nobody can say whose they are until one of the records is gone. */
  readonly shared: ReadonlySet<Address>;
}

/** A pod's link on the node. */
export interface DesiredPort {
  readonly name: string;
  readonly mac: MacAddress;
  /** Whose it is, for people. */
  readonly pod: string;
  readonly podMac: MacAddress;
  /** The pod has asked for its MAC address, so that it takes no place that another has. */
  readonly isMacRequested: boolean;
  readonly addresses: readonly Address[];
  /** undefined where the record does not say. */
  readonly hairpin: boolean | undefined;
  /** Whether packets go around the bridge where they can, and which way. */
  readonly bypass: "none" | "to the pod" | "both ways";
}

/**
 * The bridges that the node needs for the pods of these records: one for each name. Records of an earlier release, which do not say how
 * the node's side was made, only count with their ports and addresses.
 *
 * Nothing is wanted of a bridge without pods: the next ADD makes what it needs.
 */
export function desiredBridges(records: Iterable<AttachmentRecord>): readonly DesiredBridge[] {
  const byBridge = Map.groupBy(records, ({ bridge }) => bridge);
  return [...byBridge].map(([name, all]) => desiredBridge(name, all));
}

function desiredBridge(name: string, records: readonly AttachmentRecord[]): DesiredBridge {
  const hosts = records.flatMap(({ host }) => host ?? []);
  const families = ([4, 6] as const).filter((family) =>
    records.some(({ addresses }) => addresses.some(({ address }) => familyOf(address) === family)),
  );
  return Object.freeze({
    name,
    macs: mostFrequent(hosts.map(({ bridgeMac }) => bridgeMac)),
    mtus: [...new Set(hosts.map(({ mtu }) => mtu))].toSorted((a, b) => b - a),
    addresses: distinct(hosts.flatMap(({ bridgeAddresses }) => bridgeAddresses)),
    routes: distinct(hosts.flatMap(({ routes }) => routes)),
    families,
    settings: bridgeSettings(name, families),
    ports: new Map(records.map((record) => [record.hostInterface, desiredPort(record)])),
    shared: repeated(records.flatMap(({ addresses }) => addresses.map(({ address }) => address))),
  });
}

function desiredPort({
  hostInterface,
  hostMac,
  pod,
  containerId,
  mac,
  addresses,
  host,
  bandwidth,
}: AttachmentRecord): DesiredPort {
  return Object.freeze({
    name: hostInterface,
    mac: hostMac,
    pod: pod === undefined ? containerId : `${pod.namespace}/${pod.name}`,
    podMac: mac,
    isMacRequested: host?.isMacRequested ?? true,
    addresses: addresses.map(({ address }) => address),
    hairpin: host?.hairpin,
    bypass: bypassOf(host, (bandwidth?.egressRate ?? 0) > 0),
  });
}

/** All that a pod sends is delayed where that is limited, and takes the bridge after that (bridge_bypass.ts). */
function bypassOf(host: RecordedHost | undefined, isDelayed: boolean): DesiredPort["bypass"] {
  if (host?.bypass !== true) return "none";
  return isDelayed ? "to the pod" : "both ways";
}

/**
 * The settings of a bridge that pods depend on: the node forwards what comes from them, sends them no redirects, and takes neither
 * routes nor addresses from their router advertisements (CVE-2020-10749). It does not serve as a waypoint of their segment routing
 * headers (RFC 8754, RFC 6554): the kernel gives a packet with such a header to the node first, and sends it on as part of the same
 * connection, which policies have allowed by then (ipv6_rthdr_rcv). Nor does it follow their source routes (RFC 791 section 3.1): a
 * packet passes policies with the node as its destination, and gets the next one only after them (ip_forward_options). IPv6's own
 * setting of that name concerns addresses of mobile nodes only (ipv6_rthdr_rcv).
 */
export function bridgeSettings(name: string, families: readonly Family[]): ReadonlyMap<string, string> {
  const ipv4 = `net/ipv4/conf/${name}`;
  const ipv6 = `net/ipv6/conf/${name}`;
  return new Map([
    [`${ipv4}/forwarding`, "1"],
    [`${ipv4}/send_redirects`, "0"],
    ...protectingSettings(name),
    ...(families.includes(6)
      ? ([
          [`${ipv6}/disable_ipv6`, "0"],
          [`${ipv6}/forwarding`, "1"],
        ] as const)
      : []),
  ]);
}

/** Those settings of a bridge that hold before it is up, since pods' packets reach the node from then on. */
export function protectingSettings(name: string): ReadonlyMap<string, string> {
  const ipv4 = `net/ipv4/conf/${name}`;
  const ipv6 = `net/ipv6/conf/${name}`;
  return new Map([
    [`${ipv4}/accept_source_route`, "0"],
    // A pod may speak IPv6 to the bridge whether or not it has an address of it.
    [`${ipv6}/accept_ra`, "0"],
    [`${ipv6}/seg6_enabled`, "0"],
    [`${ipv6}/rpl_seg_enabled`, "0"],
  ]);
}

/** The address of the bridge by whose subnet the kernel makes the route to a pod's address; undefined where it has another. */
export function subnetOf({ addresses, routes }: DesiredBridge, address: Address): Cidr | undefined {
  if (routes.some((route) => route.address === address)) return undefined;
  return addresses.find((subnet) => cidrContains(subnet, address));
}

function mostFrequent<T extends string>(values: readonly T[]): readonly T[] {
  const counts = new Map<T, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].toSorted(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).map(([value]) => value);
}

function repeated<T>(values: readonly T[]): ReadonlySet<T> {
  const seen = new Set<T>();
  return new Set(values.filter((value) => seen.size === seen.add(value).size));
}

function distinct(cidrs: readonly Cidr[]): readonly Cidr[] {
  return [...new Map(cidrs.map((cidr) => [formatCidr(cidr), cidr])).values()];
}
