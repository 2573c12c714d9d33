import { flag, list, nested, string, u16, u32 } from "./netlink/attribute.ts";
import { type BodyLayout, decodeBody, type Request, request } from "./netlink/message.ts";
import { DrawbridgeError } from "./error.ts";
import { NetlinkSocket } from "./netlink/socket.ts";
import type { Syscalls } from "./syscall/syscalls.ts";

const NETLINK_GENERIC = 16;
const GENL_ID_CTRL = 16;
const CTRL_CMD_GETFAMILY = 3;

/** struct genlmsghdr, the header of every generic netlink message. */
const genericHeader = { command: "u8", version: "u8", reserved: "u16" } as const;

/** CTRL_ATTR_* (include/uapi/linux/genetlink.h). */
const control = {
  struct: genericHeader,
  attributes: { familyId: [1, u16], familyName: [2, string] },
} as const satisfies BodyLayout;

/** A socket for ethtool requests, and their message type on this machine. */
export interface EthtoolSocket {
  readonly socket: NetlinkSocket;
  readonly type: number;
}

/**
 * Opens a socket for ethtool's generic netlink family, in the calling thread's namespace.
 *
 * @throws NetlinkError ENOENT when the kernel has no ethtool netlink (CONFIG_ETHTOOL_NETLINK), SyscallError
 */
export function openEthtoolSocket(syscalls: Syscalls): EthtoolSocket {
  const socket = new NetlinkSocket(syscalls, NETLINK_GENERIC);
  try {
    const [answer] = socket.request(
      request(
        "find ethtool netlink (CONFIG_ETHTOOL_NETLINK)",
        { type: GENL_ID_CTRL, flags: 0, layout: control, isAnswered: true },
        { command: CTRL_CMD_GETFAMILY, version: 1 },
        { familyName: "ethtool" },
      ),
    );
    const type = answer === undefined ? undefined : decodeBody(control, answer.body).attributes.familyId;
    if (type === undefined)
      throw new DrawbridgeError("ERR_NETLINK_MALFORMED", "ethtool netlink: answer without its id");
    return { socket, type };
  } catch (error) {
    socket.close();
    throw error;
  }
}

const ETHTOOL_MSG_FEATURES_GET = 11;
const ETHTOOL_MSG_FEATURES_SET = 12;
const ETHTOOL_FLAG_OMIT_REPLY = 2;
const VERSION = 1;

/** ETHTOOL_A_HEADER_*, ETHTOOL_A_BITSET_* and ETHTOOL_A_FEATURES_* (include/uapi/linux/ethtool_netlink.h). */
const header = { index: [1, u32], name: [2, string], flags: [3, u32] } as const;
const bit = { index: [1, u32], name: [2, string], value: [3, flag] } as const;
const bitset = { noMask: [1, flag], bits: [3, nested({ bits: [1, nested(bit)] } as const)] } as const;
const answeredBitset = { bits: [3, list(1, nested(bit))] } as const;

const layout = {
  struct: genericHeader,
  attributes: { header: [1, nested(header)], wanted: [3, nested(bitset)] },
} as const satisfies BodyLayout;

const answerLayout = {
  struct: genericHeader,
  attributes: { active: [4, nested(answeredBitset)] },
} as const satisfies BodyLayout;

/** The feature by which a device leaves the checksums of its packets to the next device (`ethtool -k`). */
export const TX_CHECKSUM_OFFLOAD = "tx-checksum-ip-generic";

/**
 * Tells whether a feature of a device is in effect, whatever was requested.
 *
 * @throws NetlinkError ENODEV when the device is gone, EOPNOTSUPP when it has no features
 */
export function isFeatureActive({ socket, type }: EthtoolSocket, index: number, feature: string): boolean {
  const kind = { type, flags: 0, layout, isAnswered: true };
  const [answer] = socket.request(
    request(
      `read feature ${feature} of link ${index}`,
      kind,
      { command: ETHTOOL_MSG_FEATURES_GET, version: VERSION },
      { header: { index } },
    ),
  );
  const active = answer === undefined ? undefined : decodeBody(answerLayout, answer.body).attributes.active;
  // The kernel lists only the active ones (ETHTOOL_A_BITSET_NOMASK).
  return active?.bits?.some(({ name }) => name === feature) ?? false;
}

/** Returns the request to switch a feature off. {@link isFeatureActive} tells whether the device did so. */
export function switchFeatureOff({ type }: EthtoolSocket, index: number, feature: string): Request {
  return request(
    `switch feature ${feature} of link ${index} off`,
    { type, flags: 0, layout },
    { command: ETHTOOL_MSG_FEATURES_SET, version: VERSION },
    // A bit listed without a value is to be off; bits that are not listed stay as they are.
    { header: { index, flags: ETHTOOL_FLAG_OMIT_REPLY }, wanted: { bits: { bits: { name: feature } } } },
  );
}
