import { addressKey } from "../../kernel/ip/address_key.ts";
import { cidrContains } from "../../kernel/ip/cidr.ts";
import { LINK_LOCAL } from "../../kernel/ip/special.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { parseInterfaceAddress } from "../../kernel/route/interface_address.ts";
import { linkIdentity, parseLink } from "../../kernel/route/link.ts";
import { parseForwardingEntry } from "../../kernel/route/forwarding_entry.ts";
import { neighbourLink, parseNeighbour } from "../../kernel/route/neighbour.ts";
import { AF_BRIDGE, Notification } from "../../kernel/route/notification.ts";
import { MAIN_TABLE, parseRouteOfAnyTable, parseRouteOrDiscard } from "../../kernel/route/route.ts";
import type { KernelState } from "./route_kernel/kernel_state.ts";
import type { Desired } from "./desired.ts";
import { isSameRoute, ownRoute } from "./difference.ts";
import { isOurs, PODS_TABLE } from "./own_routes.ts";
import { TUNNEL } from "./tunnel.ts";
import { routeKey } from "./surroundings.ts";

const SCOPE_LINK = 253;

/** The result of a pass, with which notifications are compared. */
export interface View {
  /** The state of the kernel without our own routes and entries. */
  readonly state: KernelState;
  /** Undefined where it cannot be determined, and before the first pass has computed it. */
  readonly desired: Desired | undefined;
}

/** Returns the part of a state that notifications are compared with. */
export function viewOf(state: KernelState, desired: Desired | undefined): View {
  const tunnel = state.tunnel && { ...state.tunnel, forwarding: [], neighbours: [] };
  return { state: { ...state, routes: state.routes.filter((route) => !isOurs(route)), tunnel }, desired };
}

/**
 * Whether a notification is a reason for another pass: it may report a change that is not one of ours.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it cannot be parsed: then treat it as a reason
 */
export function isReason(message: ReceivedMessage, { state, desired }: View): boolean {
  return isRelevant(message, state) && (desired === undefined || !isExpected(message, desired, state.tunnel?.index));
}

/**
 * Whether a notification may mean that routes differ from the desired state. Most notifications are about pods that
 * come and go and about address resolution, and are not relevant here.
 *
 * @param state the last state read
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it cannot be parsed: then treat it as relevant
 */
export function isRelevant(message: ReceivedMessage, state: KernelState): boolean {
  switch (message.type) {
    case Notification.NEWLINK:
    case Notification.DELLINK:
      return isRelevantLink(message, state);
    case Notification.NEWADDR:
    case Notification.DELADDR: {
      const found = parseInterfaceAddress(message);
      return found !== undefined && (found.scope !== SCOPE_LINK || found.index === state.tunnel?.index);
    }
    case Notification.NEWROUTE:
    case Notification.DELROUTE:
      return isRelevantRoute(message, state);
    case Notification.NEWNEIGH:
    case Notification.DELNEIGH:
      return neighbourLink(message) === state.tunnel?.index;
    case Notification.NEWRULE:
    case Notification.DELRULE:
      return true;
    default:
      return false;
  }
}

/**
 * Whether a notification reports something that agrees with the desired state, as those about our own changes do.
 *
 * @param tunnel the index of the tunnel's device
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it cannot be parsed
 */
function isExpected(message: ReceivedMessage, desired: Desired, tunnel: number | undefined): boolean {
  switch (message.type) {
    case Notification.NEWROUTE:
    case Notification.DELROUTE:
      return isExpectedRoute(message, desired, tunnel);
    case Notification.NEWNEIGH:
    case Notification.DELNEIGH:
      return message.body[0] === AF_BRIDGE
        ? isExpectedForwarding(message, desired)
        : isExpectedNeighbour(message, desired);
    default:
      return false;
  }
}

function isExpectedRoute(message: ReceivedMessage, { routes }: Desired, tunnel: number | undefined): boolean {
  const route = parseRouteOfAnyTable(message);
  const own = route && ownRoute(route);
  if (own === undefined) return false;
  const wanted = routes.get(routeKey(own.table, own.destination));
  const isWanted = wanted !== undefined && !wanted.isTaken;
  if (message.type === Notification.DELROUTE || !isWanted) return message.type === Notification.DELROUTE && !isWanted;
  const { device, isTaken: _, ...way } = wanted;
  const outputInterface = device === "tunnel" ? tunnel : device;
  return outputInterface !== undefined && isSameRoute(own, { ...way, outputInterface });
}

function isExpectedForwarding(message: ReceivedMessage, { forwarding }: Desired): boolean {
  const entry = parseForwardingEntry(message);
  if (entry === undefined) return false;
  const isWanted = forwarding.get(entry.mac) === entry.remote;
  return message.type === Notification.NEWNEIGH ? isWanted : !isWanted;
}

function isExpectedNeighbour(message: ReceivedMessage, { neighbours }: Desired): boolean {
  const entry = parseNeighbour(message);
  if (entry === undefined) return false;
  const mac = neighbours.get(addressKey(entry.address))?.mac;
  // Before the kernel deletes an entry, it reports it as failed.
  if (mac === undefined) return message.type === Notification.DELNEIGH || !entry.permanent;
  return message.type === Notification.NEWNEIGH && entry.permanent && mac === entry.mac;
}

/** Whether it is about the tunnel, or about a change of a link with routes or addresses of the node. */
function isRelevantLink(message: ReceivedMessage, { tunnel, links, routes, addresses }: KernelState): boolean {
  const { index, name } = linkIdentity(message);
  if (name === TUNNEL.name || index === tunnel?.index) return true;
  const hasRoute = routes.some(({ outputInterface }) => outputInterface === index);
  const hasAddress = addresses.some((one) => one.index === index && one.scope !== SCOPE_LINK);
  if (!hasRoute && !hasAddress) return false;
  const known = links.find((link) => link.index === index);
  const { mtu, up, hasLinkLayer } = parseLink(message);
  if (message.type === Notification.DELLINK || known === undefined) return true;
  return known.up !== up || known.mtu !== mtu || known.hasLinkLayer !== hasLinkLayer;
}

/** Whether it is about a route of the main table or ours, or of a table to which rules of other programs may lead. */
function isRelevantRoute(message: ReceivedMessage, { otherRules = [] }: KernelState): boolean {
  const route = parseRouteOrDiscard(message)?.route;
  if (route === undefined) return false;
  if (otherRules.length === 0 && route.table !== MAIN_TABLE && route.table !== PODS_TABLE) return false;
  return route.destination === undefined || !cidrContains(LINK_LOCAL[6], route.destination.address);
}
