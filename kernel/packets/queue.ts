import { be32, be64, bytes } from "../netlink/attribute.ts";
import { type BodyLayout, decodeBody, type ReceivedMessage, type Request, request } from "../netlink/message.ts";
import { messageType, netfilterHeader, Subsystem } from "../netlink/netfilter_message.ts";
import { viewOf } from "../byte_writer.ts";

/** NFQNL_MSG_* (include/uapi/linux/netfilter/nfnetlink_queue.h, the source of this whole file). */
const NFQNL_MSG_PACKET = messageType(Subsystem.QUEUE, 0);
const NFQNL_MSG_CONFIG = messageType(Subsystem.QUEUE, 2);
const NFQNL_MSG_VERDICT_BATCH = messageType(Subsystem.QUEUE, 3);
/** struct nfqnl_msg_config_cmd with NFQNL_CFG_CMD_BIND; the other fields no longer mean anything. */
const BIND = Uint8Array.of(1, 0, 0, 0);
/** struct nfqnl_msg_config_params: 64 KB of each packet (NFQNL_COPY_PACKET). */
const WHOLE_PACKETS = Uint8Array.of(0, 0, 0xff, 0xff, 2);
/** NFQA_CFG_F_FAIL_OPEN: packets beyond the queue's length pass. NFQA_CFG_F_GSO: large ones are not divided. */
const QUEUE_FLAGS = 0b101;
const NF_ACCEPT = 1n;

/** NFQA_CFG_* */
const configuration = {
  struct: netfilterHeader,
  attributes: { command: [1, bytes], copy: [2, bytes], length: [3, be32], mask: [4, be32], flags: [5, be32] },
} as const satisfies BodyLayout;

/** NFQA_*; `verdict` is a struct of the verdict and the packet's number. */
const packetLayout = {
  struct: netfilterHeader,
  attributes: { header: [1, bytes], verdict: [2, be64], payload: [10, bytes] },
} as const satisfies BodyLayout;

/** A packet that waits for a verdict. */
export interface QueuedPacket {
  /** Counts the packets of the queue, in 32 bits. */
  readonly id: number;
  /** From its network header on. */
  readonly bytes: Uint8Array;
}

/**
 * Returns the request for the packets of a queue, which the requesting socket has until it is closed. Its length is 0,
 * so they pass. The kernel answers EPERM when another socket has the queue.
 */
export function bindQueue(queue: number): Request {
  return request(
    `bind packet queue ${queue}`,
    { type: NFQNL_MSG_CONFIG, flags: 0, layout: configuration, needs: "nfqueue" },
    { resourceId: queue },
    { command: BIND, copy: WHOLE_PACKETS, length: 0, mask: QUEUE_FLAGS, flags: QUEUE_FLAGS },
  );
}

/** Returns the request that sets how many packets wait at most; further ones pass. */
export function setQueueLength(queue: number, length: number): Request {
  const kind = { type: NFQNL_MSG_CONFIG, flags: 0, layout: configuration };
  return request(`set the length of packet queue ${queue}`, kind, { resourceId: queue }, { length });
}

/** Returns the request that lets packets pass, up to one of them. The kernel answers ENOENT if none of them waits. */
export function acceptUpTo(queue: number, id: number): Request {
  const kind = { type: NFQNL_MSG_VERDICT_BATCH, flags: 0, layout: packetLayout };
  const verdict = (NF_ACCEPT << 32n) | BigInt(id >>> 0);
  return request(`accept packets of queue ${queue}`, kind, { resourceId: queue }, { verdict });
}

/**
 * Returns the packet in a message of a queue; undefined for any other message.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseQueuedPacket(message: ReceivedMessage): QueuedPacket | undefined {
  if (message.type !== NFQNL_MSG_PACKET) return undefined;
  const { header, payload } = decodeBody(packetLayout, message.body).attributes;
  if (header === undefined || header.length < 4) return undefined;
  return { id: viewOf(header).getUint32(0), bytes: payload ?? new Uint8Array(0) };
}
