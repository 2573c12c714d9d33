import { type Address, bitsOf, type Family, familyOf, formatAddress } from "../ip/address.ts";
import { type Cidr, cidrFamily, formatCidr } from "../ip/cidr.ts";
import {
  address,
  type AttributeInput,
  type AttributeTable,
  type AttributeValues,
  be16,
  bytes,
  nested,
  u32,
  u8,
} from "../netlink/attribute.ts";
import {
  type BodyLayout,
  decodeBody,
  decodeStruct,
  MessageFlag,
  type ReceivedMessage,
  type Request,
  request,
  structSize,
} from "../netlink/message.ts";
import { addressFamilyNumber, familyFromNumber } from "../netlink/address_family.ts";

const RTM_NEWROUTE = 24;
const RTM_DELROUTE = 25;
const RTM_GETROUTE = 26;

const RT_TABLE_UNSPEC = 0;
const RT_TABLE_MAIN = 254;
/** The largest table number that fits struct rtmsg. */
const LARGEST_TABLE_OF_HEADER = 255;
const RT_SCOPE_UNIVERSE = 0;
const RT_SCOPE_LINK = 253;
const RTN_UNICAST = 1;
const RTN_LOCAL = 2;
/** RTN_BLACKHOLE, RTN_UNREACHABLE, RTN_PROHIBIT. */
const DISCARDING: readonly number[] = [6, 7, 8];
const RTNH_F_ONLINK = 4;
/** Makes a lookup return the route itself instead of one packet's path. */
const RTM_F_FIB_MATCH = 0x2000;

/** The main routing table. */
export const MAIN_TABLE = RT_TABLE_MAIN;

/** The routing protocol number that marks our routes (`ip route show proto 107`), so that we never touch others. */
export const ROUTE_PROTOCOL = 107;

/** RTPROT_KERNEL (include/uapi/linux/rtnetlink.h): the kernel has made the route or rule itself. */
export const KERNEL_PROTOCOL = 2;

/** RTAX_* (include/uapi/linux/rtnetlink.h). */
const metrics = { mtu: [2, u32], advmss: [8, u32] } as const satisfies AttributeTable;

/** struct rtnexthop; its attributes follow, padded to four bytes. */
const NEXT_HOP = { length: "u16", flags: "u8", hops: "u8", link: "u32" } as const;

/** struct rtmsg and RTA_* (include/uapi/linux/rtnetlink.h). */
const layout = {
  struct: {
    family: "u8",
    destinationLength: "u8",
    sourceLength: "u8",
    tos: "u8",
    table: "u8",
    protocol: "u8",
    scope: "u8",
    type: "u8",
    flags: "u32",
  },
  attributes: {
    destination: [1, address],
    packetSource: [2, address],
    inputInterface: [3, u32],
    outputInterface: [4, u32],
    gateway: [5, address],
    priority: [6, u32],
    source: [7, address],
    metrics: [8, nested(metrics)],
    multipath: [9, bytes],
    table: [15, u32],
    mark: [16, u32],
    via: [18, bytes],
    protocol: [27, u8],
    destinationPort: [29, be16],
    nextHopObject: [30, u32],
  },
} as const satisfies BodyLayout;

/** A unicast route. */
export interface Route {
  readonly table: number;
  readonly family: Family;
  /** undefined for the default route. */
  readonly destination: Cidr | undefined;
  /** undefined when the route leads to the link itself, and with {@link hasOtherNextHop}. */
  readonly gateway: Address | undefined;
  readonly outputInterface: number | undefined;
  /** The source address of the node's own packets (`src`); undefined lets the kernel choose. */
  readonly source: Address | undefined;
  /** The links of its next hops where it has several. */
  readonly nextHopLinks?: readonly number[] | undefined;
  /**
   * Whether it has several next hops, one of the other family, or a next hop object that the kernel does not spell out
   * (`net.ipv4.nexthop_compat_mode=0`).
   */
  readonly hasOtherNextHop: boolean;
  /** 0 is the family's default (IPv6 reports 1024). */
  readonly priority: number;
  readonly protocol: number;
  /** Whether the gateway is taken to be on the link even if no address of the interface implies that. */
  readonly onLink: boolean;
  /** The largest packet for it in bytes; undefined for the limit of its device. */
  readonly mtu?: number | undefined;
}

/** A route, and whether it discards its packets. */
export interface FoundRoute {
  readonly route: Route;
  readonly discards: boolean;
}

/** A route to add or delete. */
export type RouteSpec = Pick<Route, "family" | "destination" | "gateway" | "outputInterface" | "onLink" | "mtu"> & {
  readonly table?: number;
  readonly source?: Address | undefined;
  readonly priority?: number;
  readonly protocol?: number;
  /** The maximum segment size, in bytes, that TCP connections over it announce. */
  readonly advmss?: number | undefined;
};

/** Returns a route to destinations on a link, without a gateway. @param outputInterface the link's index */
export function linkRoute(destination: Cidr, outputInterface: number | undefined): RouteSpec {
  return { family: cidrFamily(destination), destination, gateway: undefined, outputInterface, onLink: false };
}

/** Returns the request to add a route; EEXIST when one has the same destination and priority. */
export function newRoute(route: RouteSpec): Request {
  return change("add", RTM_NEWROUTE, MessageFlag.CREATE | MessageFlag.EXCL, route);
}

/** Returns the request to add a route after those with the same destination and priority; EEXIST when one is the same. */
export function appendRoute(route: RouteSpec): Request {
  return change("append", RTM_NEWROUTE, MessageFlag.CREATE | MessageFlag.APPEND, route);
}

/**
 * Returns the request to add a route or replace the one with the same destination and priority, without a gap for
 * packets. Of several such routes the kernel replaces the first, whoever made it.
 */
export function replaceRoute(route: RouteSpec): Request {
  return change("set", RTM_NEWROUTE, MessageFlag.CREATE | MessageFlag.REPLACE, route);
}

/** Returns the request to delete a route; ESRCH when none matches. */
export function deleteRoute(route: RouteSpec): Request {
  return change("delete", RTM_DELROUTE, 0, route);
}

function change(verb: string, type: number, flags: number, route: RouteSpec): Request {
  return request(() => `${verb} route ${describe(route)}`, { type, flags, layout }, header(route), attributes(route));
}

/** Returns the request for the routes of a family in all tables. {@link parseRoute} filters the answers. */
export function dumpRoutes(family: Family): Request {
  return request("list routes", { type: RTM_GETROUTE, flags: 0, layout }, { family: addressFamilyNumber(family) }, {});
}

/** A packet to look up: of the node itself, or one that arrives by a link. */
export interface LookedUp {
  /** Undefined where the kernel chooses. */
  readonly source?: Address | undefined;
  /** The index of the link by which it arrives. */
  readonly inputInterface?: number | undefined;
  /** Its mark (fwmark); 0 without. */
  readonly mark?: number | undefined;
  /** Its type of service, or traffic class. */
  readonly tos?: number | undefined;
  /** TCP, UDP, ICMP or ICMPv6. */
  readonly protocol?: number | undefined;
  readonly destinationPort?: number | undefined;
}

/** Returns the request for the route that a packet to this address would take. */
export function lookUpRoute(destination: Address, packet: LookedUp = {}): Request {
  const { source, tos = 0, ...others } = packet;
  const family = familyOf(destination);
  const sourceLength = source === undefined ? 0 : bitsOf(family);
  return request(
    () => `look up route to ${formatAddress(destination)}`,
    { type: RTM_GETROUTE, flags: 0, layout, isAnswered: true },
    { family: addressFamilyNumber(family), destinationLength: bitsOf(family), sourceLength, tos },
    { ...others, destination, packetSource: source },
  );
}

/** Returns the request for the route that a packet to this address would take, with the route's own destination. */
export function lookUpMatchedRoute(destination: Address): Request {
  const family = familyOf(destination);
  return request(
    () => `look up route to ${formatAddress(destination)}`,
    { type: RTM_GETROUTE, flags: 0, layout, isAnswered: true },
    { family: addressFamilyNumber(family), destinationLength: bitsOf(family), flags: RTM_F_FIB_MATCH },
    { destination },
  );
}

/** Tells whether the route in a RTM_NEWROUTE message delivers to the namespace itself. */
export function isLocalRoute(message: ReceivedMessage): boolean {
  return decodeStruct(layout.struct, message.body).type === RTN_LOCAL;
}

/**
 * Returns the route in a RTM_NEWROUTE message; undefined unless it is a unicast route of the main table.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseRoute(message: ReceivedMessage): Route | undefined {
  const route = parseRouteOfAnyTable(message);
  return route?.table === RT_TABLE_MAIN ? route : undefined;
}

/**
 * Returns the route in a message like {@link parseRoute}, but of any table; undefined unless it is a unicast route.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseRouteOfAnyTable(message: ReceivedMessage): Route | undefined {
  const found = parseRouteOrDiscard(message);
  return found?.discards === false ? found.route : undefined;
}

/**
 * Returns a route like {@link parseRouteOfAnyTable}, and also routes that discard their packets.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseRouteOrDiscard(message: ReceivedMessage): FoundRoute | undefined {
  const { header: fields, attributes: values } = decodeBody(layout, message.body);
  const discards = DISCARDING.includes(fields.type);
  if (!discards && fields.type !== RTN_UNICAST) return undefined;
  const destination = values.destination;
  const route: Route = {
    table: values.table ?? fields.table,
    family: familyFromNumber(fields.family) ?? 6,
    destination:
      destination === undefined ? undefined : { address: destination, prefixLength: fields.destinationLength },
    gateway: values.gateway,
    outputInterface: values.outputInterface,
    source: values.source,
    hasOtherNextHop:
      values.multipath !== undefined ||
      values.via !== undefined ||
      (values.nextHopObject !== undefined && values.outputInterface === undefined),
    priority: values.priority ?? 0,
    protocol: fields.protocol,
    onLink: (fields.flags & RTNH_F_ONLINK) !== 0,
    ...(values.metrics?.mtu === undefined ? {} : { mtu: values.metrics.mtu }),
    ...(values.multipath === undefined ? {} : { nextHopLinks: linksOfHops(values.multipath) }),
  };
  return { route, discards };
}

/** Returns the indexes of the links by which a route's packets may leave. */
export function linksOf({ outputInterface, nextHopLinks = [] }: Route): readonly number[] {
  return outputInterface === undefined ? nextHopLinks : [outputInterface];
}

function linksOfHops(multipath: Uint8Array): readonly number[] {
  if (multipath.length === 0) return [];
  const { length, link } = decodeStruct(NEXT_HOP, multipath);
  return [link, ...linksOfHops(multipath.subarray(Math.max((length + 3) & ~3, structSize(NEXT_HOP))))];
}

function header(
  route: RouteSpec,
): Record<"family" | "destinationLength" | "table" | "protocol" | "scope" | "type" | "flags", number> {
  return {
    family: addressFamilyNumber(route.family),
    destinationLength: route.destination?.prefixLength ?? 0,
    table: isLargeTable(route.table) ? RT_TABLE_UNSPEC : (route.table ?? RT_TABLE_MAIN),
    protocol: route.protocol ?? ROUTE_PROTOCOL,
    scope: route.gateway === undefined && route.family === 4 ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE,
    type: RTN_UNICAST,
    flags: route.onLink ? RTNH_F_ONLINK : 0,
  };
}

function attributes(route: RouteSpec): AttributeInput<(typeof layout)["attributes"]> {
  return {
    destination: route.destination?.address,
    gateway: route.gateway,
    outputInterface: route.outputInterface,
    priority: route.priority,
    source: route.source,
    metrics: route.mtu === undefined && route.advmss === undefined ? undefined : metricsOf(route),
    table: isLargeTable(route.table) ? route.table : undefined,
  };
}

function isLargeTable(table: number | undefined): boolean {
  return table !== undefined && table > LARGEST_TABLE_OF_HEADER;
}

function metricsOf({ mtu, advmss }: RouteSpec): AttributeValues<typeof metrics> {
  return { ...(mtu === undefined ? {} : { mtu }), ...(advmss === undefined ? {} : { advmss }) };
}

function describe(route: RouteSpec): string {
  const destination = route.destination === undefined ? `default (IPv${route.family})` : formatCidr(route.destination);
  return route.gateway === undefined ? destination : `${destination} via ${formatAddress(route.gateway)}`;
}
