import type { DesiredBridge } from "../../cni/node_state/desired.ts";
import { isAttached } from "../../cni/node_state/difference.ts";
import { portOfDelayDevice } from "../../attachment/names_and_macs.ts";
import type { Address } from "../../kernel/ip/address.ts";
import { cidrContains, formatCidr } from "../../kernel/ip/cidr.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { parseInterfaceAddress } from "../../kernel/route/interface_address.ts";
import { linkIdentity, parseLink } from "../../kernel/route/link.ts";
import { neighbourLink, parseNeighbour } from "../../kernel/route/neighbour.ts";
import { AF_BRIDGE, Notification } from "../../kernel/route/notification.ts";
import { parseRouteOrDiscard } from "../../kernel/route/route.ts";
import { parseSettingsLink } from "../../kernel/route/settings.ts";
import { filteredLink } from "../../kernel/traffic_control/message.ts";

const ABOUT_FILTERS: readonly number[] = [
  Notification.NEWQDISC,
  Notification.DELQDISC,
  Notification.NEWTFILTER,
  Notification.DELTFILTER,
];

/** Returns whether the kernel notifies of changes to a setting (inet_netconf_notify_devconf, likewise for IPv6). */
export function isNotified(key: string): boolean {
  return key.endsWith("/forwarding");
}

/** The parts that a notification makes dirty. */
export type Doubt =
  /** Everything about a bridge. */
  | { readonly kind: "everything" }
  /** The bridge itself: its flags, addresses and settings. */
  | { readonly kind: "bridge" }
  | { readonly kind: "port"; readonly name: string; readonly hasFilters: boolean }
  /** The bridge's neighbour entries for a pod. */
  | { readonly kind: "neighbour"; readonly name: string }
  /** The routes to pods' addresses. */
  | { readonly kind: "ways"; readonly addresses: readonly Address[] | "all" };

/** A bridge, with the link indexes by which notifications refer to it and its ports. */
export interface KnownBridge {
  readonly desired: DesiredBridge;
  /** Undefined while it is missing. */
  readonly index: number | undefined;
  /** The names of ports by their link indexes. */
  readonly ports: ReadonlyMap<number, string>;
}

/**
 * Returns the part of a bridge that a notification makes dirty. Most notifications change nothing and return undefined:
 * pods that come and go, neighbour resolution, and our own changes.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for an unreadable message, which may be about anything
 */
export function doubtOf(message: ReceivedMessage, known: KnownBridge): Doubt | undefined {
  if (ABOUT_FILTERS.includes(message.type)) return portDoubt(known, filteredLink(message), true);
  switch (message.type) {
    case Notification.NEWLINK:
    case Notification.DELLINK:
      return linkDoubt(message, known);
    case Notification.DELADDR:
      return addressDoubt(message, known);
    case Notification.NEWROUTE:
    case Notification.DELROUTE:
      return routeDoubt(message, known);
    case Notification.NEWRULE:
    case Notification.DELRULE:
      return { kind: "ways", addresses: "all" };
    case Notification.NEWNEIGH:
    case Notification.DELNEIGH:
      return neighbourDoubt(message, known);
    case Notification.NEWNETCONF:
      return parseSettingsLink(message) === known.index ? { kind: "bridge" } : undefined;
    default:
      return undefined;
  }
}

function linkDoubt(message: ReceivedMessage, known: KnownBridge): Doubt | undefined {
  const { desired, index } = known;
  const { index: about, name } = linkIdentity(message);
  if (name === desired.name) {
    // A bridge that is deleted or down loses its routes, neighbours and IPv6 addresses.
    if (message.type === Notification.DELLINK || about !== index) return { kind: "everything" };
    if (message.body[0] === AF_BRIDGE) return undefined;
    const link = parseLink(message);
    if (!link.up) return { kind: "everything" };
    const isRight =
      link.bridge?.stp !== true &&
      (link.mac === undefined || desired.macs.includes(link.mac)) &&
      (desired.mtu === undefined || link.mtu === desired.mtu);
    return isRight ? undefined : { kind: "bridge" };
  }
  return message.type === Notification.DELLINK ? undefined : portLinkDoubt(message, known, { about, name });
}

/** Returns the doubt about a port. A deleted port needs no check, since its state and the pod's end go with it. */
function portLinkDoubt(
  message: ReceivedMessage,
  { desired, index, ports }: KnownBridge,
  { about, name }: { readonly about: number; readonly name: string },
): Doubt | undefined {
  const port = desired.ports.get(name) ?? desired.ports.get(portOfDelayDevice(name));
  if (port === undefined) return undefined;
  // The bridge sends repeated notifications about an unchanged port: about its carrier, and groups learned there.
  const isKnown = ports.get(about) === name && message.body[0] === AF_BRIDGE;
  if (isKnown && index !== undefined && isAttached(port, parseLink(message), index)) return undefined;
  return { kind: "port", name: port.name, hasFilters: true };
}

function addressDoubt(message: ReceivedMessage, { desired, index }: KnownBridge): Doubt | undefined {
  const found = parseInterfaceAddress(message);
  if (found === undefined || found.index !== index) return undefined;
  const text = formatCidr(found.address);
  if (!desired.addresses.some((address) => formatCidr(address) === text)) return undefined;
  return { kind: "ways", addresses: "all" };
}

/** Ignores routes to the bridge, which are right, and routes that cover none of its pods. */
function routeDoubt(message: ReceivedMessage, { desired, index }: KnownBridge): Doubt | undefined {
  const route = parseRouteOrDiscard(message)?.route;
  const destination = route?.destination;
  if (route === undefined || destination === undefined) return undefined;
  if (message.type === Notification.NEWROUTE && route.outputInterface === index) return undefined;
  const subnets = [...desired.addresses, ...desired.routes];
  const doOverlap = subnets.some(
    (subnet) => cidrContains(destination, subnet.address) || cidrContains(subnet, destination.address),
  );
  if (!doOverlap) return undefined;
  const addresses = [...desired.ports.values()].flatMap((port) =>
    port.addresses.filter((address) => cidrContains(destination, address)),
  );
  return addresses.length === 0 ? undefined : { kind: "ways", addresses };
}

function neighbourDoubt(message: ReceivedMessage, known: KnownBridge): Doubt | undefined {
  const about = neighbourLink(message);
  if (message.body[0] === AF_BRIDGE) {
    return message.type === Notification.DELNEIGH ? portDoubt(known, about, false) : undefined;
  }
  if (about !== known.index) return undefined;
  const entry = parseNeighbour(message);
  if (entry === undefined) return undefined;
  for (const { name, addresses, podMac } of known.desired.ports.values()) {
    if (!addresses.includes(entry.address)) continue;
    const isRight = message.type === Notification.NEWNEIGH && entry.permanent && entry.mac === podMac;
    return isRight ? undefined : { kind: "neighbour", name };
  }
  return undefined;
}

function portDoubt({ ports }: KnownBridge, index: number, hasFilters: boolean): Doubt | undefined {
  const name = ports.get(index);
  return name === undefined ? undefined : { kind: "port", name, hasFilters };
}
