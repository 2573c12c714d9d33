import { DrawbridgeError } from "../error.ts";
import { string, u16 } from "../netlink/attribute.ts";
import { type BodyLayout, decodeBody, request } from "../netlink/message.ts";
import { NetlinkSocket } from "../netlink/socket.ts";
import type { Syscalls } from "../syscall/syscalls.ts";

const NETLINK_GENERIC = 16;
const GENL_ID_CTRL = 16;
const CTRL_CMD_GETFAMILY = 3;

/** struct genlmsghdr, the header of every generic netlink message. */
export const genericHeader = { command: "u8", version: "u8", reserved: "u16" } as const;

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
