import { messageType, netfilterHeader, Subsystem } from "../netlink/netfilter_message.ts";
import { type AttributeType, be32, u8 } from "../netlink/attribute.ts";
import { type BodyLayout, type Request, request } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";

const NFULNL_MSG_CONFIG = messageType(Subsystem.LOG, 1);
const NFULNL_CFG_CMD_BIND = 1;
const NFULNL_COPY_PACKET = 2;
/** The largest copy. A payload and its attributes must fit the reader's receive buffer. */
const LARGEST_COPY = 0xffff;

/** struct nfulnl_msg_config_mode (include/uapi/linux/netfilter/nfnetlink_log.h, the source of this whole folder). */
interface CopyMode {
  readonly range: number;
  readonly mode: number;
}

const copyMode: AttributeType<CopyMode> = {
  encode: (writer, { range, mode }) => {
    writer.be32(range);
    writer.u8(mode);
    writer.u8(0);
  },
  decode: (payload) => ({ range: be32.decode(payload.subarray(0, 4)), mode: u8.decode(payload.subarray(4, 5)) }),
};

/** NFULA_CFG_* */
const layout = {
  struct: netfilterHeader,
  attributes: {
    command: [1, u8],
    mode: [2, copyMode],
    timeout: [4, be32],
    queueThreshold: [5, be32],
  },
} as const satisfies BodyLayout;

/** The delivery of packets of one `log group`. */
export interface LogGroup {
  /** 0 to 65535. */
  readonly group: number;
  /** The bytes copied of each packet, from its network header on. */
  readonly copyBytes: number;
  /** The number of packets sent in one datagram; 1 sends each at once. */
  readonly queueThreshold: number;
  /** The time after which fewer packets are sent, too, in milliseconds. */
  readonly queueMilliseconds: number;
}

/**
 * Returns the request for the packets of a log group. The requesting socket gets those of its namespace until it is
 * closed. The kernel answers EPERM when another socket has the group.
 *
 * @throws RangeError for a group or a copy length of more than 16 bits
 */
export function bindLogGroup({ group, copyBytes, queueThreshold, queueMilliseconds }: LogGroup): Request {
  for (const [field, value] of Object.entries({ group, copyBytes })) {
    if (!Number.isInteger(value) || value < 0 || value > LARGEST_COPY) {
      throw new RangeError(`log group: ${field}: ${value}; expected 0 to ${LARGEST_COPY}`);
    }
  }
  return request(
    `bind log group ${group}`,
    { type: NFULNL_MSG_CONFIG, flags: 0, layout, needs: "nflog" },
    { resourceId: group },
    {
      command: NFULNL_CFG_CMD_BIND,
      mode: { range: copyBytes, mode: NFULNL_COPY_PACKET },
      // The kernel counts hundredths of a second.
      timeout: Math.ceil(queueMilliseconds / 10),
      queueThreshold,
    },
  );
}

/**
 * Returns whether the kernel logs packets by netlink, also where the module is loaded only by this question: a change
 * of no group is refused in other words than a subsystem that the kernel does not have (nfnetlink_rcv_msg).
 *
 * @throws NetlinkError EPERM without CAP_NET_ADMIN
 */
export function knowsPacketLog(socket: NetlinkSocket): boolean {
  const question = request("try packet logging", { type: NFULNL_MSG_CONFIG, flags: 0, layout }, { resourceId: 0 }, {});
  const [reply] = socket.batch([question]);
  if (reply?.error?.errnoName === "EPERM") throw reply.error;
  return reply?.error?.errnoName !== "EINVAL";
}
