import { type AttributeTable, type AttributeType, type AttributeValues, nested, string } from "../netlink/attribute.ts";
import {
  attributeBytes,
  decodeStruct,
  encodeStruct,
  MessageFlag,
  type Request,
  request,
  type StructLayout,
  structSize,
  type StructValues,
} from "../netlink/message.ts";
import { littleEndian } from "../byte_order.ts";
import { RECEIVED, trafficControlLayout } from "./message.ts";

export const RTM_NEWTFILTER = 44;
export const RTM_DELTFILTER = 45;
export const RTM_GETTFILTER = 46;

/** The classifier that compares words of a frame (net/sched/cls_u32.c). */
export const KIND_CLASSIFIER = "u32";
const KIND_ACTION = "mirred";

/** TC_U32_TERMINAL: a match ends the search. */
const TERMINAL = 1;
/** TC_ACT_STOLEN: the frame goes nowhere else. */
const STOLEN = 4;

/** The path of a redirected frame: the link sends it (TCA_EGRESS_REDIR) or receives it (TCA_INGRESS_REDIR). */
export type RedirectPath = "sent" | "received";
const DIRECTIONS: Readonly<Record<RedirectPath, number>> = { sent: 1, received: 3 };

const PROTOCOLS = { all: 0x0003, ip: 0x0800, ip6: 0x86dd } as const;

/** The frames that a filter sees. Only ETH_P_ALL includes those with VLAN tags and of unknown protocols. */
export type FilterProtocol = keyof typeof PROTOCOLS;

/** Returns tcm_info: a filter's priority among those of a link, and its protocol as a big-endian number. */
export function filterInfo(priority: number, protocol: FilterProtocol): number {
  const number = PROTOCOLS[protocol];
  return priority * 0x1_0000 + (littleEndian ? ((number & 0xff) << 8) | (number >> 8) : number);
}

/** Four bytes of a frame to compare: the value in network order, and the mask of its compared bits. */
export interface FrameWord {
  /** The offset from the network header in bytes; the Ethernet header begins at -14. */
  readonly offset: number;
  readonly mask: number;
  readonly value: number;
}

/** Returns the words that match these bytes at an offset. */
export function frameWords(offset: number, bytes: Uint8Array): readonly FrameWord[] {
  const words: FrameWord[] = [];
  const padded = new Uint8Array((bytes.length + 3) & ~3);
  padded.set(bytes);
  const view = new DataView(padded.buffer);
  for (let start = 0; start < bytes.length; start += 4) {
    const missing = Math.max(start + 4 - bytes.length, 0);
    words.push({ offset: offset + start, mask: (-1 << (8 * missing)) >>> 0, value: view.getUint32(start) });
  }
  return words;
}

/** struct tc_u32_sel without its keys (include/uapi/linux/pkt_cls.h). */
const selectorLayout = {
  flags: "u8",
  offsetShift: "u8",
  keys: "u8",
  pad: "u8",
  offsetMask: "u16",
  offset: "u16",
  keyOffset: "u16",
  hashOffset: "u16",
  hashMask: "be32",
} as const;

/** struct tc_u32_key. */
const keyLayout = { mask: "be32", value: "be32", offset: "i32", offsetMask: "i32" } as const;

/** The fields of a classifier. */
export interface Selector extends Partial<Omit<StructValues<typeof selectorLayout>, "keys">> {
  readonly words: readonly FrameWord[];
}

const selector: AttributeType<Selector> = {
  encode: (writer, { words, ...fields }) => {
    encodeStruct(writer, selectorLayout, { ...fields, keys: words.length });
    for (const word of words) encodeStruct(writer, keyLayout, word);
  },
  decode: (payload) => {
    const fields = decodeStruct(selectorLayout, payload);
    const words: FrameWord[] = [];
    const size = structSize(keyLayout);
    for (let i = 0; i < fields.keys; i++) {
      const { offset, mask, value } = decodeStruct(keyLayout, payload.subarray(structSize(selectorLayout) + i * size));
      words.push({ offset, mask, value });
    }
    return { ...fields, words };
  },
};

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

function struct<L extends StructLayout>(layout: L): AttributeType<Partial<StructValues<L>>> {
  return {
    encode: (writer, values) => encodeStruct(writer, layout, values),
    decode: (payload) => decodeStruct(layout, payload),
  };
}

const mirredAttributes = { parameters: [2, struct(mirredLayout)] } as const satisfies AttributeTable;
const actionAttributes = {
  kind: [1, string],
  options: [2, nested(mirredAttributes)],
} as const satisfies AttributeTable;
/** Actions are numbered in their order; we use only one. */
const actionList = { first: [1, nested(actionAttributes)] } as const satisfies AttributeTable;

/** TCA_U32_*. */
export const u32Attributes = {
  selector: [5, selector],
  actions: [7, nested(actionList)],
} as const satisfies AttributeTable;

type Actions = AttributeValues<typeof actionList>;

/** Returns the action to have a link send or receive the frame instead (act_mirred). A link that is down drops it. */
export function redirectTo(link: number, direction: RedirectPath): Actions {
  return {
    first: {
      kind: KIND_ACTION,
      options: { parameters: { action: STOLEN, kind: DIRECTIONS[direction], link } },
    },
  };
}

/** A filter of the frames that a link receives, and the actions on matching frames. */
export interface ReceivedFilter {
  /** The link's index. */
  readonly index: number;
  /** As {@link filterInfo} returns it. */
  readonly info: number;
  readonly words: readonly FrameWord[];
  readonly actions: Actions;
}

/** Returns the request to add a filter to a link that has classifiers. @param action its purpose in words */
export function addReceivedFilter(
  action: string | (() => string),
  { index, info, words, actions }: ReceivedFilter,
): Request {
  return request(
    action,
    { type: RTM_NEWTFILTER, flags: MessageFlag.CREATE | MessageFlag.EXCL, layout: trafficControlLayout },
    { index, parent: RECEIVED, info },
    {
      kind: KIND_CLASSIFIER,
      options: attributeBytes(u32Attributes, { selector: { flags: TERMINAL, words }, actions }),
    },
  );
}

/** Returns the request to delete the received filters of a priority and protocol. @param info of {@link filterInfo} */
export function deleteReceivedFilters(index: number, info: number): Request {
  return request(
    `delete filters ${info >>> 16} of what link ${index} receives`,
    { type: RTM_DELTFILTER, flags: 0, layout: trafficControlLayout },
    { index, parent: RECEIVED, info },
    {},
  );
}

/** Returns the index of the link to which actions redirect; undefined for any other actions. */
export function redirectionOf(actions: Actions | undefined, direction: RedirectPath): number | undefined {
  const action = actions?.first;
  const mirred = action?.kind === KIND_ACTION ? action.options?.parameters : undefined;
  return mirred?.kind === DIRECTIONS[direction] && mirred.action === STOLEN ? mirred.link : undefined;
}
