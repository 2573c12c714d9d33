import { DrawbridgeError } from "../error.ts";
import { meansMissing, missingFeature } from "../missing_feature.ts";
import { errnoName, errnoText } from "../syscall/errno.ts";
import { type AttributeTable, string, u32 } from "./attribute.ts";
import { decodeAttributes } from "./attribute_decoder.ts";
import { type Request, requestAttributeAt } from "./message.ts";
import { littleEndian } from "../byte_order.ts";

/** The kernel refused a request. `errno` is positive; `kernelMessage` is the text of its extended ACK, if any. */
export class NetlinkError extends DrawbridgeError {
  override readonly name = "NetlinkError";
  readonly errno: number;
  readonly errnoName: string;
  readonly operation: string;
  readonly kernelMessage: string | undefined;

  constructor(operation: string, errno: number, kernelMessage?: string, attribute?: string) {
    const reason = kernelMessage ?? errnoText(errno);
    const where = attribute === undefined ? "" : `, attribute ${attribute}`;
    super("ERR_NETLINK", `${operation}: ${reason} (${errnoName(errno)}${where})`);
    this.errno = errno;
    this.errnoName = errnoName(errno);
    this.operation = operation;
    this.kernelMessage = kernelMessage;
  }
}

/** NLMSGERR_ATTR_* (include/uapi/linux/netlink.h). */
const extendedAck = { message: [1, string], offset: [2, u32] } as const satisfies AttributeTable;

const CAPPED = 0x100;
const ACK_TLVS = 0x200;
const MESSAGE_HEADER = 16;

/**
 * Returns the outcome of a request that an NLMSG_ERROR body reports.
 *
 * @returns undefined for an acknowledgement, the error otherwise
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when the body is not an nlmsgerr
 */
export function outcomeOf(message: Request, flags: number, body: Uint8Array): NetlinkError | undefined {
  if (body.length < 4 + MESSAGE_HEADER) {
    throw new DrawbridgeError("ERR_NETLINK_MALFORMED", `netlink error: ${body.length} bytes; expected at least 20`);
  }
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const errno = -view.getInt32(0, littleEndian);
  if (errno === 0) return undefined;
  const { needs } = message;
  if (needs !== undefined && meansMissing(needs, errno)) {
    const { what, way } = missingFeature(needs);
    return new NetlinkError(message.operation, errno, `${what}: ${way}`);
  }
  if ((flags & ACK_TLVS) === 0) return new NetlinkError(message.operation, errno);
  // Without CAPPED the kernel echoes the whole request between the errno and the extended ACK attributes.
  const echoed = (flags & CAPPED) === 0 ? view.getUint32(4, littleEndian) : MESSAGE_HEADER;
  if (echoed < MESSAGE_HEADER || echoed > body.length - 4) {
    throw new DrawbridgeError(
      "ERR_NETLINK_MALFORMED",
      `netlink error: request of ${echoed} bytes echoed in ${body.length - 4}; expected at least ${MESSAGE_HEADER} that fit`,
    );
  }
  const attributes = decodeAttributes(extendedAck, body.subarray(4 + ((echoed + 3) & ~3)));
  const attribute = attributes.offset === undefined ? undefined : requestAttributeAt(message, attributes.offset);
  return new NetlinkError(message.operation, errno, attributes.message, attribute);
}

/** Returns the error in the int of NLMSG_DONE, negative when the dump failed on the way; undefined for success. */
export function dumpOutcome(message: Request, body: Uint8Array): NetlinkError | undefined {
  if (body.length < 4) return undefined;
  const result = new DataView(body.buffer, body.byteOffset, body.byteLength).getInt32(0, littleEndian);
  return result < 0 ? new NetlinkError(message.operation, -result) : undefined;
}
