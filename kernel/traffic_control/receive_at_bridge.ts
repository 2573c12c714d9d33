import type { Address } from "../ip/address.ts";
import { addressToBytes, familyOf, formatAddress } from "../ip/address.ts";
import type { MacAddress } from "../ip/mac.ts";
import { macToBytes } from "../ip/mac.ts";
import { decodeAttributes } from "../netlink/attribute.ts";
import type { ReceivedMessage, Request } from "../netlink/message.ts";
import { decodeBody } from "../netlink/message.ts";
import {
  addReceivedFilter,
  deleteReceivedFilters,
  filterInfo,
  frameWords,
  KIND_CLASSIFIER,
  redirectionOf,
  redirectTo,
  u32Attributes,
} from "./filter.ts";
import { trafficControlLayout } from "./message.ts";

/** Behind the filters of others, whom the kernel counts down from 49152 where they name no place themselves. */
const PRIORITY = 0xd000;

/** Bytes from the network header: where Ethernet's addresses begin, and the source addresses of IPv4 and IPv6. */
const MAC_ADDRESSES = -14;
const SOURCE_ADDRESS = { 4: 12, 6: 8 } as const;

/** Who sends a frame to whom, and the IP packet in it. */
export interface FrameEnds {
  readonly source: MacAddress;
  readonly destination: MacAddress;
  /** The source of the packet. */
  readonly address: Address;
}

/**
 * Has a bridge receive at once what one of its ports does of these frames: without the bridge's search for the
 * destination, its hooks, and br_netfilter.
 *
 * All three addresses are compared, and the protocol: so what looks at the bridge's frames to see whose they are misses
 * none but those that are as they should be. All others take the bridge as before, those with VLAN tags among them (their
 * protocol is the tag's). Whether a frame is for the node the kernel has said by then: one to the port's own MAC address
 * (eth_type_trans). The kernel answers ENOENT without NET_CLS_U32 or NET_ACT_MIRRED, EINVAL for a port without classifiers.
 *
 * @param port the port's index
 * @param bridge the bridge's index
 */
export function receiveAtBridge(port: number, bridge: number, { source, destination, address }: FrameEnds): Request {
  const family = familyOf(address);
  const addresses = new Uint8Array(12);
  addresses.set(macToBytes(destination));
  addresses.set(macToBytes(source), 6);
  return addReceivedFilter(`have link ${bridge} receive what link ${port} does from ${formatAddress(address)}`, {
    index: port,
    // Filters of one priority are of one protocol.
    info: family === 4 ? filterInfo(PRIORITY, "ip") : filterInfo(PRIORITY + 1, "ip6"),
    words: [...frameWords(MAC_ADDRESSES, addresses), ...frameWords(SOURCE_ADDRESS[family], addressToBytes(address))],
    actions: redirectTo(bridge, "received"),
  });
}

/** Ends what {@link receiveAtBridge} has begun, for all addresses of a port; ENOENT or EINVAL where it has not. */
export function endReceivingAtBridge(port: number): readonly Request[] {
  return [filterInfo(PRIORITY, "ip"), filterInfo(PRIORITY + 1, "ip6")].map((info) => deleteReceivedFilters(port, info));
}

/** A filter of what a port receives. */
export interface PortFilter {
  /** Whether it has the place and the shape of those of {@link receiveAtBridge}. */
  readonly isOurs: boolean;
  /** The index of the link that receives the frames; 0 where that link is gone, and the frames with it. */
  readonly target: number;
}

/**
 * The filter that a RTM_NEWTFILTER message describes; undefined for what only holds filters, as the kernel lists it with them.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when the message is not one
 */
export function parsePortFilter(message: ReceivedMessage): PortFilter | undefined {
  const { header, attributes } = decodeBody(trafficControlLayout, message.body);
  if (attributes.kind !== KIND_CLASSIFIER) return { isOurs: false, target: 0 };
  if (attributes.options === undefined) return undefined;
  const { selector, actions } = decodeAttributes(u32Attributes, attributes.options);
  if (selector === undefined) return undefined;
  const target = redirectionOf(actions, "received");
  const priority = header.info >>> 16;
  const isOurs = target !== undefined && (priority === PRIORITY || priority === PRIORITY + 1);
  return { isOurs, target: target ?? 0 };
}
