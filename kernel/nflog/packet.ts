import { DrawbridgeError } from "../error.ts";
import { messageType, netfilterHeader, Subsystem } from "../netlink/netfilter_message.ts";
import { type AttributeType, be16, be32, bytes } from "../netlink/attribute.ts";
import { type BodyLayout, decodeBody, type ReceivedMessage } from "../netlink/message.ts";
import { type IpHeader, parseIpHeader } from "./ip_header.ts";

const NFULNL_MSG_PACKET = messageType(Subsystem.LOG, 0);

/** NF_INET_* by number (include/uapi/linux/netfilter.h). */
const HOOKS = ["prerouting", "input", "forward", "output", "postrouting", "ingress"] as const;

/** The hook at which a packet was logged; a number for a hook that has no name here. */
export type LogHook = (typeof HOOKS)[number] | number;

/** The longest prefix that a rule can have (NF_LOG_PREFIXLEN without its NUL). */
const LONGEST_PREFIX = 127;

/** A packet that a `log group` rule saw. */
export interface LoggedPacket {
  readonly group: number;
  readonly hook: LogHook;
  /** The rule's prefix, at most 127 characters of printable ASCII, with "?" for any other byte. */
  readonly prefix: string;
  readonly mark: number;
  /** The packet's arrival in microseconds since 1970, if the kernel recorded it. */
  readonly timestamp: bigint | undefined;
  readonly inputInterface: number | undefined;
  readonly outputInterface: number | undefined;
  /** The link-layer header as received, if there is one. */
  readonly hardwareHeader: Uint8Array | undefined;
  /** The packet from its network header on, truncated to the bytes that the group copies. */
  readonly payload: Uint8Array;
  /** undefined when the payload is not an IP packet. */
  readonly ip: IpHeader | undefined;
}

function atLeast(payload: Uint8Array, length: number, what: string): DataView {
  if (payload.length < length) {
    throw new DrawbridgeError("ERR_NETLINK_MALFORMED", `nflog ${what}: ${payload.length} bytes; expected ${length}`);
  }
  return new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
}

/** Returns a type that can only be read. */
function readOnly<T>(decode: (payload: Uint8Array) => T): AttributeType<T> {
  return {
    encode: () => {
      throw new TypeError("an attribute of logged packets is only read");
    },
    decode,
  };
}

/** struct nfulnl_msg_packet_hdr */
const packetHeader = readOnly((payload) => ({ hook: atLeast(payload, 3, "packet header").getUint8(2) }));

/** struct nfulnl_msg_packet_timestamp: seconds and microseconds. */
const timestamp = readOnly((payload) => {
  const view = atLeast(payload, 16, "timestamp");
  return view.getBigUint64(0) * 1_000_000n + view.getBigUint64(8);
});

/** Replaces bytes that could forge a log line or control a terminal: any program's rule may set the prefix. */
const prefix = readOnly((payload) => {
  const end = payload.indexOf(0);
  const text = payload.subarray(0, Math.min(end < 0 ? payload.length : end, LONGEST_PREFIX));
  return String.fromCharCode(...text.map((byte) => (byte >= 0x20 && byte <= 0x7e ? byte : 0x3f)));
});

/** NFULA_* */
const layout = {
  struct: netfilterHeader,
  attributes: {
    packetHeader: [1, packetHeader],
    mark: [2, be32],
    timestamp: [3, timestamp],
    inputInterface: [4, be32],
    outputInterface: [5, be32],
    payload: [9, bytes],
    prefix: [10, prefix],
    hardwareHeader: [16, bytes],
    hardwareHeaderLength: [17, be16],
  },
} as const satisfies BodyLayout;

/**
 * Returns the packet in a message of a log group; undefined for any other message.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseLoggedPacket(message: ReceivedMessage): LoggedPacket | undefined {
  if (message.type !== NFULNL_MSG_PACKET) return undefined;
  const { header, attributes: values } = decodeBody(layout, message.body);
  const payload = values.payload ?? new Uint8Array(0);
  const hook = values.packetHeader?.hook ?? 0;
  return {
    group: header.resourceId,
    hook: HOOKS[hook] ?? hook,
    prefix: values.prefix ?? "",
    mark: values.mark ?? 0,
    timestamp: values.timestamp,
    inputInterface: values.inputInterface,
    outputInterface: values.outputInterface,
    hardwareHeader: values.hardwareHeader?.subarray(0, values.hardwareHeaderLength),
    payload,
    ip: parseIpHeader(payload),
  };
}
