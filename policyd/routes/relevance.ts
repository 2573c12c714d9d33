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
import { isSameRoute, ownRoute } from "./difference.ts";
import { PODS_TABLE } from "./own_routes.ts";
import { TUNNEL } from "./tunnel.ts";
import type { DesiredRoute } from "./peer_routes.ts";
import type { RoutePlan } from "./route_plan.ts";
import { routeKey } from "./surroundings.ts";

const SCOPE_LINK = 253;

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

/** The desired state that notifications are compared with. */
export interface Expected {
  readonly plan: Pick<RoutePlan, "route" | "remoteOf" | "macOf">;
  /** Routes beside those of the plan. */
  readonly routes: readonly DesiredRoute[];
  /** The index of the tunnel's device. */
  readonly tunnel: number | undefined;
}

/**
 * Whether a notification reports something that agrees with the desired state, as those about our own changes do.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it cannot be parsed
 */
export function isExpected(message: ReceivedMessage, expected: Expected): boolean {
  switch (message.type) {
    case Notification.NEWROUTE:
    case Notification.DELROUTE:
      return isExpectedRoute(message, expected);
    case Notification.NEWNEIGH:
    case Notification.DELNEIGH:
      return message.body[0] === AF_BRIDGE
        ? isExpectedForwarding(message, expected)
        : isExpectedNeighbour(message, expected);
    default:
      return false;
  }
}

function isExpectedRoute(message: ReceivedMessage, { plan, routes, tunnel }: Expected): boolean {
  const route = parseRouteOfAnyTable(message);
  const own = route && ownRoute(route);
  if (own === undefined) return false;
  const key = routeKey(own.table, own.destination);
  const desired = plan.route(key) ?? routes.find(({ table, destination }) => routeKey(table, destination) === key);
  const isWanted = desired !== undefined && !desired.isTaken;
  if (message.type === Notification.DELROUTE || !isWanted) return message.type === Notification.DELROUTE && !isWanted;
  const { device, isTaken: _, ...way } = desired;
  const outputInterface = device === "tunnel" ? tunnel : device;
  return outputInterface !== undefined && isSameRoute(own, { ...way, outputInterface });
}

function isExpectedForwarding(message: ReceivedMessage, { plan }: Expected): boolean {
  const entry = parseForwardingEntry(message);
  if (entry === undefined) return false;
  const isWanted = plan.remoteOf(entry.mac) === entry.remote;
  return message.type === Notification.NEWNEIGH ? isWanted : !isWanted;
}

function isExpectedNeighbour(message: ReceivedMessage, { plan }: Expected): boolean {
  const entry = parseNeighbour(message);
  if (entry === undefined) return false;
  const mac = plan.macOf(entry.address);
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
