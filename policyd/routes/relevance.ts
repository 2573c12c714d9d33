import { cidrContains, parseCidr } from "../../kernel/ip/cidr.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { parseInterfaceAddress } from "../../kernel/route/interface_address.ts";
import { parseLink } from "../../kernel/route/link.ts";
import { neighbourLink } from "../../kernel/route/neighbour.ts";
import { MAIN_TABLE, parseRouteOfAnyTable } from "../../kernel/route/route.ts";
import type { KernelState } from "./kernel_state.ts";
import { PODS_TABLE, TUNNEL } from "./names.ts";

/** RTM_* of notifications (include/uapi/linux/rtnetlink.h). */
const Notification = {
  NEWLINK: 16,
  DELLINK: 17,
  NEWADDR: 20,
  DELADDR: 21,
  NEWROUTE: 24,
  DELROUTE: 25,
  NEWNEIGH: 28,
  DELNEIGH: 29,
  NEWRULE: 32,
  DELRULE: 33,
} as const;

const SCOPE_LINK = 253;
/** Every link has a route of it. */
const LINK_LOCAL = parseCidr("fe80::/10");

/**
 * Whether a notification may mean that routes are not what they should be. Most are about pods that come and go and about
 * neighbours that are looked for, and mean nothing here.
 *
 * @param state what was read last
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it cannot be read: then it may have meant anything
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
      return isRelevantRoute(message);
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

/** The tunnel, and links with addresses or routes of the node that go or change; not the ends of pods. */
function isRelevantLink(message: ReceivedMessage, { tunnel, links, routes, addresses }: KernelState): boolean {
  const { index, name, mtu, up } = parseLink(message);
  if (name === TUNNEL.name || index === tunnel?.index) return true;
  const known = links.find((link) => link.index === index);
  const isChanged = message.type === Notification.DELLINK || known?.up !== up || known.mtu !== mtu;
  const hasRoute = routes.some(({ outputInterface }) => outputInterface === index);
  const hasAddress = addresses.some((one) => one.index === index && one.scope !== SCOPE_LINK);
  return isChanged && (hasRoute || hasAddress);
}

function isRelevantRoute(message: ReceivedMessage): boolean {
  const route = parseRouteOfAnyTable(message);
  if (route === undefined || (route.table !== MAIN_TABLE && route.table !== PODS_TABLE)) return false;
  return route.destination === undefined || !cidrContains(LINK_LOCAL, route.destination.address);
}
