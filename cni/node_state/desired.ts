import type { AttachmentRecord, RecordedHost } from "../../attachment/attachment.ts";
import { delayDeviceOfPort, displayName } from "../../attachment/names_and_macs.ts";
import { type Address, familiesIn, type Family } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, formatCidr } from "../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";

/** A bridge with its ports, as the pods on it need them. */
export interface DesiredBridge {
  readonly name: string;
  /** The MAC addresses that ADDs found the bridge with. Each is right; a bridge with another one gets the first. */
  readonly macs: readonly MacAddress[];
  /** Bytes: that of the pod with the smallest; undefined leaves it as it is. */
  readonly mtu: number | undefined;
  readonly addresses: readonly Cidr[];
  /** Pods' addresses that need a route of their own. */
  readonly routes: readonly Cidr[];
  readonly families: readonly Family[];
  /** The bridge's own settings, by their keys. */
  readonly settings: ReadonlyMap<string, string>;
  /** The ports, by the names of their links. */
  readonly ports: ReadonlyMap<string, DesiredPort>;
  /** Addresses in several records: their owner is unknown until one of the records is gone. */
  readonly shared: ReadonlySet<Address>;
}

/** A pod's link on the node. */
export interface DesiredPort {
  readonly name: string;
  readonly mac: MacAddress;
  /** The link's pod, for people. */
  readonly pod: string;
  readonly podMac: MacAddress;
  /** Bytes, of the pod's link: what is larger, a port with a smaller one drops silently. */
  readonly mtu: number;
  /** Whether the pod requested its MAC address, and so takes no place from another pod. */
  readonly isMacRequested: boolean;
  readonly addresses: readonly Address[];
  readonly hairpin: boolean;
  /** Whether packets go around the bridge where possible, and in which direction. */
  readonly bypass: "none" | "to the pod" | "both ways";
  /** The name of the device that delays what the pod sends; undefined without a limit. */
  readonly delay: string | undefined;
}

/**
 * Returns the bridges that the node needs for the pods of these records, one for each name.
 *
 * A bridge without pods is not desired: the next ADD makes what it needs.
 */
export function desiredBridges(records: Iterable<AttachmentRecord>): readonly DesiredBridge[] {
  const byBridge = Map.groupBy(records, ({ bridge }) => bridge);
  return [...byBridge].map(([name, all]) => desiredBridge(name, all));
}

function desiredBridge(name: string, records: readonly AttachmentRecord[]): DesiredBridge {
  const hosts = records.map(({ host }) => host);
  const families = familiesIn(records.flatMap(({ addresses }) => addresses.map(({ address }) => address)));
  return Object.freeze({
    name,
    macs: mostFrequent(hosts.map(({ bridgeMac }) => bridgeMac)),
    mtu: Math.min(...hosts.map(({ mtu }) => mtu)),
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
  const isDelayed = (bandwidth?.egressRate ?? 0) > 0;
  return Object.freeze({
    name: hostInterface,
    mac: hostMac,
    pod: displayName({ pod, containerId }),
    podMac: mac,
    mtu: host.mtu,
    isMacRequested: host.isMacRequested,
    addresses: addresses.map(({ address }) => address),
    hairpin: host.hairpin,
    bypass: bypassOf(host, isDelayed),
    delay: isDelayed ? delayDeviceOfPort(hostInterface) : undefined,
  });
}

/**
 * Returns which packets bypass the bridge. Those of a pod with limited sending take the bridge, after the delay
 * (cni/wiring/bypass.ts).
 */
function bypassOf({ bypass }: RecordedHost, isDelayed: boolean): DesiredPort["bypass"] {
  if (!bypass) return "none";
  return isDelayed ? "to the pod" : "both ways";
}

/**
 * Returns the settings of a bridge that pods depend on. The node forwards the pods' packets, sends them no redirects,
 * and takes neither routes nor addresses from their router advertisements (CVE-2020-10749).
 *
 * The node does not serve as a waypoint of segment routing headers (RFC 8754, RFC 6554): the kernel would first accept
 * a packet with such a header for the node, and then send it on as part of the same connection, which policies have
 * allowed by then (ipv6_rthdr_rcv). Nor does it follow source routes (RFC 791 section 3.1): such a packet passes the
 * policies with the node as its destination, and gets the next one only afterwards (ip_forward_options). IPv6's own
 * setting of that name concerns only addresses of mobile nodes (ipv6_rthdr_rcv).
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

/** Returns the settings of a bridge that must hold before it is up, when pods' packets begin to reach the node. */
export function protectingSettings(name: string): ReadonlyMap<string, string> {
  const ipv4 = `net/ipv4/conf/${name}`;
  const ipv6 = `net/ipv6/conf/${name}`;
  return new Map([
    [`${ipv4}/accept_source_route`, "0"],
    // A pod may send IPv6 to the bridge even without an IPv6 address from us.
    [`${ipv6}/accept_ra`, "0"],
    [`${ipv6}/seg6_enabled`, "0"],
    [`${ipv6}/rpl_seg_enabled`, "0"],
  ]);
}

/**
 * Returns the bridge's address whose subnet gives the route to a pod's address; undefined if the pod has its own route.
 */
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
