import { messageType, netfilterHeader, Subsystem } from "../netlink/netfilter_message.ts";
import { bytes } from "../netlink/attribute.ts";
import { type BodyLayout, decodeBody, type ReceivedMessage } from "../netlink/message.ts";
import { type IpHeader, parseIpHeader } from "./ip_header.ts";

const NFULNL_MSG_PACKET = messageType(Subsystem.LOG, 0);

/** The longest prefix that a rule can have (NF_LOG_PREFIXLEN without its NUL). */
const LONGEST_PREFIX = 127;

/** A packet that a `log group` rule saw. */
export interface LoggedPacket {
  /** The rule's prefix, at most 127 characters of printable ASCII, with "?" for any other byte. */
  readonly prefix: string;
  /** The packet from its network header on, truncated to the bytes that the group copies. */
  readonly payload: Uint8Array;
  /** undefined when the payload is not an IP packet. */
  readonly ip: IpHeader | undefined;
}

/** Replaces bytes that could forge a log line or control a terminal: any program's rule may set the prefix. */
function prefixOf(bytesOfPrefix: Uint8Array): string {
  const end = bytesOfPrefix.indexOf(0);
  const text = bytesOfPrefix.subarray(0, Math.min(end < 0 ? bytesOfPrefix.length : end, LONGEST_PREFIX));
  return String.fromCharCode(...text.map((byte) => (byte >= 0x20 && byte <= 0x7e ? byte : 0x3f)));
}

/** NFULA_* */
const layout = {
  struct: netfilterHeader,
  attributes: { payload: [9, bytes], prefix: [10, bytes] },
} as const satisfies BodyLayout;

/**
 * Returns the packet in a message of a log group; undefined for any other message.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseLoggedPacket(message: ReceivedMessage): LoggedPacket | undefined {
  if (message.type !== NFULNL_MSG_PACKET) return undefined;
  const { payload = new Uint8Array(0), prefix = new Uint8Array(0) } = decodeBody(layout, message.body).attributes;
  return { prefix: prefixOf(prefix), payload, ip: parseIpHeader(payload) };
}
