import { i32 } from "../netlink/attribute.ts";
import { type BodyLayout, decodeBody, type ReceivedMessage } from "../netlink/message.ts";

/** struct netconfmsg and NETCONFA_* (include/uapi/linux/netconf.h). */
const layout = {
  struct: { family: "u8" },
  attributes: { index: [1, i32] },
} as const satisfies BodyLayout;

/**
 * Returns the index of the link whose settings a RTM_NEWNETCONF message is about; -1 for those of `conf/all`. The
 * kernel reports `forwarding`, `rp_filter` and few others, but not `accept_ra`, `send_redirects` and `disable_ipv6`.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseSettingsLink(message: ReceivedMessage): number | undefined {
  return decodeBody(layout, message.body).attributes.index;
}
