import { type AttributeTable, bytes, string } from "../netlink/attribute.ts";
import { type BodyLayout, decodeStruct, type ReceivedMessage } from "../netlink/message.ts";

/** struct tcmsg and TCA_* (include/uapi/linux/rtnetlink.h); the table of `options` depends on `kind`. */
export const trafficControlLayout = {
  struct: { family: "u8", pad1: "u8", pad2: "u16", index: "i32", handle: "u32", parent: "u32", info: "u32" },
  attributes: { kind: [1, string], options: [2, bytes] },
} as const satisfies BodyLayout & { attributes: AttributeTable };

/** TC_H_ROOT: the queueing discipline for all frames that a link sends. */
export const ROOT = 0xffff_ffff;
/** TC_H_CLSACT: the parent of a link's classifiers. */
export const CLASSIFIERS = 0xffff_fff1;
/** TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS): the classifiers of received frames. */
export const RECEIVED = 0xffff_fff2;
/** TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS): the classifiers of sent frames. */
export const SENT = 0xffff_fff3;

/**
 * Returns the link index of a message about queueing disciplines or filters.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function filteredLink({ body }: ReceivedMessage): number {
  return decodeStruct(trafficControlLayout.struct, body).index;
}
