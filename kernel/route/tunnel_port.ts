import { be16, bytes, decodeAttributes, nested, string } from "../netlink/attribute.ts";
import { type BodyLayout, decodeBody, type ReceivedMessage } from "../netlink/message.ts";

const layout = {
  struct: { family: "u8", pad: "u8", type: "u16", index: "i32", flags: "u32", change: "u32" },
  attributes: { linkInfo: [18, nested({ kind: [1, string], data: [2, bytes] } as const)] },
} as const satisfies BodyLayout;

/** IFLA_VXLAN_PORT, IFLA_GENEVE_PORT and IFLA_BAREUDP_PORT (include/uapi/linux/if_link.h), by the kind of link. */
const PORT_ATTRIBUTES: Readonly<Record<string, number>> = { vxlan: 15, geneve: 5, bareudp: 1 };

/**
 * Returns the UDP port on which a tunnel's link listens, from its RTM_*LINK message; undefined for every other link.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function tunnelPortOf(message: ReceivedMessage): number | undefined {
  const { kind = "", data } = decodeBody(layout, message.body).attributes.linkInfo ?? {};
  const attribute = PORT_ATTRIBUTES[kind];
  if (attribute === undefined || data === undefined) return undefined;
  return decodeAttributes({ port: [attribute, be16] } as const, data).port;
}
