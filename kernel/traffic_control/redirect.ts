import { type Address, addressToBytes, familyOf, formatAddress } from "../ip/address.ts";
import { type MacAddress, macToBytes } from "../ip/mac.ts";
import { decodeAttributes } from "../netlink/attribute_decoder.ts";
import { decodeBody, type ReceivedMessage, type Request, request } from "../netlink/message.ts";
import {
  addReceivedFilter,
  deleteReceivedFilters,
  filterInfo,
  frameWords,
  KIND_CLASSIFIER,
  redirectionOf,
  redirectTo,
  RTM_GETTFILTER,
  u32Attributes,
} from "./filter.ts";
import { RECEIVED, trafficControlLayout } from "./message.ts";

/**
 * Returns the request to have another link send every frame that a link receives (cls_u32, act_mirred). While the other
 * link is down, the frames are dropped.
 *
 * The classifier has no key. A key that compares nothing ("match u32 0 0") would not match frames that are too short
 * for its four bytes (u32_classify), so their sender would not be limited.
 */
export function redirectReceived(index: number, target: number): Request {
  return addReceivedFilter(
    `redirect what link ${index} receives to link ${target} (kernel options NET_CLS_U32, NET_ACT_MIRRED)`,
    { index, info: filterInfo(1, "all"), words: [], actions: redirectTo(target, "sent") },
  );
}

/** Returns the request for the filters of received frames; ENOENT or EINVAL when the link has no classifiers. */
export function dumpReceivedFilters(index: number): Request {
  return request(
    `list the filters of what link ${index} receives`,
    { type: RTM_GETTFILTER, flags: 0, layout: trafficControlLayout },
    { index, parent: RECEIVED },
    {},
  );
}

/** After filters of other programs, which the kernel numbers downwards from 49152 when they choose no priority. */
const PRIORITY = 0xd000;

/** Offsets from the network header: Ethernet's addresses, and the source addresses of IPv4 and IPv6. */
const MAC_ADDRESSES = -14;
const SOURCE_ADDRESS = { 4: 12, 6: 8 } as const;

/** The addresses of a frame and of the IP packet in it. */
export interface FrameEnds {
  readonly source: MacAddress;
  readonly destination: MacAddress;
  /** The source address of the packet. */
  readonly address: Address;
}

/**
 * Makes a bridge receive at once these frames that one of its ports receives: without the bridge's search for the
 * destination, its hooks, and br_netfilter.
 *
 * The filter compares all three addresses and the protocol, so only frames with correct addresses bypass the checks of
 * the bridge's hooks. All others pass the bridge as before, including those with VLAN tags (their protocol is the
 * tag's). By then the kernel has decided whether a frame is for the node: it is when sent to the port's own MAC address
 * (eth_type_trans). The kernel answers ENOENT without NET_CLS_U32 or NET_ACT_MIRRED, EINVAL for a port without
 * classifiers.
 *
 * @param port the port's index
 * @param bridge the bridge's index
 */
export function receiveAtBridge(port: number, bridge: number, { source, destination, address }: FrameEnds): Request {
  const family = familyOf(address);
  const addresses = new Uint8Array(12);
  addresses.set(macToBytes(destination));
  addresses.set(macToBytes(source), 6);
  return addReceivedFilter(() => `have link ${bridge} receive what link ${port} does from ${formatAddress(address)}`, {
    index: port,
    // Filters of one priority have one protocol.
    info: family === 4 ? filterInfo(PRIORITY, "ip") : filterInfo(PRIORITY + 1, "ip6"),
    words: [...frameWords(MAC_ADDRESSES, addresses), ...frameWords(SOURCE_ADDRESS[family], addressToBytes(address))],
    actions: redirectTo(bridge, "received"),
  });
}

/** Returns the requests that undo {@link receiveAtBridge} for all addresses of a port; ENOENT or EINVAL without it. */
export function endReceivingAtBridge(port: number): readonly Request[] {
  return [filterInfo(PRIORITY, "ip"), filterInfo(PRIORITY + 1, "ip6")].map((info) => deleteReceivedFilters(port, info));
}

/** A filter of the frames that a port receives. */
export interface PortFilter {
  /** Whether it has the priority and the shape of a filter of {@link receiveAtBridge}. */
  readonly isOurs: boolean;
  /** The index of the link that receives the frames; 0 when that link has gone, so that the frames are lost. */
  readonly target: number;
}

/**
 * Returns the filter in a RTM_NEWTFILTER message; undefined for a container of filters, which the kernel lists, too.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
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
