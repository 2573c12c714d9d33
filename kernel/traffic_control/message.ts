import type { AttributeTable } from "../netlink/attribute.ts";
import { bytes, string } from "../netlink/attribute.ts";
import type { BodyLayout, ReceivedMessage } from "../netlink/message.ts";
import { decodeStruct } from "../netlink/struct.ts";

/** struct tcmsg and TCA_* (include/uapi/linux/rtnetlink.h); the table of `options` depends on `kind`. */
export const trafficControlLayout = {
  struct: { family: "u8", pad1: "u8", pad2: "u16", index: "i32", handle: "u32", parent: "u32", info: "u32" },
  attributes: { kind: [1, string], options: [2, bytes] },
} as const satisfies BodyLayout & { attributes: AttributeTable };

/** TC_H_ROOT: a queueing discipline that takes all a link sends. */
export const ROOT = 0xffff_ffff;
/** TC_H_CLSACT: where the classifiers of a link hang. */
export const CLASSIFIERS = 0xffff_fff1;
/** TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS): those of what it receives. */
export const RECEIVED = 0xffff_fff2;

/**
 * The index of the link that a message about queueing disciplines or filters is about.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it is not one
 */
export function filteredLink({ body }: ReceivedMessage): number {
  return decodeStruct(trafficControlLayout.struct, body).index;
}
