import type { AttributeTable, AttributeType } from "../netlink/attribute.ts";
import { attributeBytes, decodeAttributes, nested, string } from "../netlink/attribute.ts";
import type { ReceivedMessage, Request } from "../netlink/message.ts";
import { decodeBody, MessageFlag, request } from "../netlink/message.ts";
import type { StructLayout, StructValues } from "../netlink/struct.ts";
import { decodeStruct, encodeStruct } from "../netlink/struct.ts";
import { littleEndian } from "../netlink/writer.ts";
import { RECEIVED, trafficControlLayout } from "./message.ts";

const RTM_NEWTFILTER = 44;
const RTM_GETTFILTER = 46;

const KIND_CLASSIFIER = "u32";
const KIND_ACTION = "mirred";
const PRIORITY = 1;
/** ETH_P_ALL, a big-endian number in the low half of tcm_info: also frames with VLAN tags and of unknown protocols. */
const ALL_PROTOCOLS = littleEndian ? 0x0300 : 0x0003;
/** TC_U32_TERMINAL: a match ends the search. */
const TERMINAL = 1;
/** TC_ACT_STOLEN: the frame goes nowhere else. */
const STOLEN = 4;
/** TCA_EGRESS_REDIR: the other link sends it. */
const REDIRECT_TO_SENDING = 1;

function struct<L extends StructLayout>(layout: L): AttributeType<Partial<StructValues<L>>> {
  return {
    encode: (writer, values) => encodeStruct(writer, layout, values),
    decode: (payload) => decodeStruct(layout, payload),
  };
}

/** struct tc_u32_sel without keys (include/uapi/linux/pkt_cls.h). */
const selectorLayout = {
  flags: "u8",
  offsetShift: "u8",
  keys: "u8",
  pad: "u8",
  offsetMask: "u16",
  offset: "u16",
  keyOffset: "u16",
  hashOffset: "u16",
  hashMask: "u32",
} as const;

/** struct tc_mirred (include/uapi/linux/tc_act/tc_mirred.h). */
const mirredLayout = {
  index: "u32",
  capabilities: "u32",
  action: "i32",
  references: "i32",
  bindings: "i32",
  kind: "i32",
  link: "u32",
} as const;

const mirredAttributes = { parameters: [2, struct(mirredLayout)] } as const satisfies AttributeTable;
const actionAttributes = {
  kind: [1, string],
  options: [2, nested(mirredAttributes)],
} as const satisfies AttributeTable;
/** Actions are numbered in their order; there is one. */
const actionList = { first: [1, nested(actionAttributes)] } as const satisfies AttributeTable;
const u32Attributes = {
  selector: [5, struct(selectorLayout)],
  actions: [7, nested(actionList)],
} as const satisfies AttributeTable;

/**
 * Has every frame that a link receives sent by another link instead (cls_u32, act_mirred). While that one is down, the
 * frames are dropped.
 *
 * The classifier has no key. With one that compares nothing ("match u32 0 0"), frames too short to hold its four bytes
 * would not match (u32_classify), and whoever sends such frames would go unlimited.
 */
export function redirectReceived(index: number, target: number): Request {
  return request(
    `redirect what link ${index} receives to link ${target} (kernel options NET_CLS_U32, NET_ACT_MIRRED)`,
    { type: RTM_NEWTFILTER, flags: MessageFlag.CREATE | MessageFlag.EXCL, layout: trafficControlLayout },
    { index, parent: RECEIVED, info: PRIORITY * 0x1_0000 + ALL_PROTOCOLS },
    {
      kind: KIND_CLASSIFIER,
      options: attributeBytes(u32Attributes, {
        selector: { flags: TERMINAL },
        actions: {
          first: {
            kind: KIND_ACTION,
            options: { parameters: { action: STOLEN, kind: REDIRECT_TO_SENDING, link: target } },
          },
        },
      }),
    },
  );
}

/** Asks for the filters of what a link receives; ENOENT or EINVAL when it has no place for any. */
export function dumpReceivedFilters(index: number): Request {
  return request(
    `list the filters of what link ${index} receives`,
    { type: RTM_GETTFILTER, flags: 0, layout: trafficControlLayout },
    { index, parent: RECEIVED },
    {},
  );
}

/**
 * The index of the link to which a filter of a RTM_NEWTFILTER message redirects every frame; undefined for a filter
 * that does anything else or matches less.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when the message is not one
 */
export function parseRedirect(message: ReceivedMessage): number | undefined {
  const { header, attributes } = decodeBody(trafficControlLayout, message.body);
  if (attributes.kind !== KIND_CLASSIFIER || attributes.options === undefined) return undefined;
  if (header.info % 0x1_0000 !== ALL_PROTOCOLS) return undefined;
  const { selector, actions } = decodeAttributes(u32Attributes, attributes.options);
  const action = actions?.first;
  const mirred = action?.kind === KIND_ACTION ? action.options?.parameters : undefined;
  const isForAll = selector?.keys === 0 && mirred?.kind === REDIRECT_TO_SENDING && mirred.action === STOLEN;
  return isForAll ? mirred.link : undefined;
}
