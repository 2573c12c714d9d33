import { bytes, nested, string } from "../netlink/attribute.ts";
import { type BodyLayout, MessageFlag, request } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { RTM_NEWLINK } from "./link.ts";

const layout = {
  struct: { family: "u8", pad: "u8", type: "u16", index: "i32", flags: "u32", change: "u32" },
  attributes: { mac: [1, bytes], name: [3, string], linkInfo: [18, nested({ kind: [1, string] } as const)] },
} as const satisfies BodyLayout;

/** The kinds of links that Drawbridge makes on a node. */
export type LinkKind = "bridge" | "veth" | "vxlan";

/**
 * Tells whether the kernel supports a kind of link, by a request that cannot create one: every Ethernet driver refuses
 * its one-byte address (EINVAL), and a kind without a driver is refused before that (EOPNOTSUPP).
 *
 * @throws NetlinkError EPERM without CAP_NET_ADMIN
 */
export function knowsLinkKind(socket: NetlinkSocket, kind: LinkKind): boolean {
  const flags = MessageFlag.CREATE | MessageFlag.EXCL;
  const [reply] = socket.batch([
    request(
      `try link kind ${kind}`,
      { type: RTM_NEWLINK, flags, layout },
      {},
      { mac: Uint8Array.of(2), name: "drawbridge.try", linkInfo: { kind } },
    ),
  ]);
  if (reply?.error?.errnoName === "EPERM") throw reply.error;
  return reply?.error?.errnoName !== "EOPNOTSUPP";
}
