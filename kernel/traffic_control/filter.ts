import type { AttributeTable, AttributeType, AttributeValues } from "../netlink/attribute.ts";
import { attributeBytes, nested, string } from "../netlink/attribute.ts";
import type { Request } from "../netlink/message.ts";
import { MessageFlag, request } from "../netlink/message.ts";
import type { StructLayout, StructValues } from "../netlink/struct.ts";
import { decodeStruct, encodeStruct, structSize } from "../netlink/struct.ts";
import { littleEndian } from "../netlink/writer.ts";
import { RECEIVED, trafficControlLayout } from "./message.ts";

const RTM_NEWTFILTER = 44;
const RTM_DELTFILTER = 45;
export const RTM_GETTFILTER = 46;

/** The classifier that compares words of a frame (net/sched/cls_u32.c). */
export const KIND_CLASSIFIER = "u32";
const KIND_ACTION = "mirred";

/** TC_U32_TERMINAL: a match ends the search. */
const TERMINAL = 1;
/** TC_ACT_STOLEN: the frame goes nowhere else. */
const STOLEN = 4;

/** Where a frame goes on: it leaves by the link (TCA_EGRESS_REDIR), or is received by it (TCA_INGRESS_REDIR). */
export type Direction = "sent" | "received";
const DIRECTIONS: Readonly<Record<Direction, number>> = { sent: 1, received: 3 };

const PROTOCOLS = { all: 0x0003, ip: 0x0800, ip6: 0x86dd } as const;

/** Which frames a filter is asked about: ETH_P_ALL has those with VLAN tags and of unknown protocols, the others do not. */
export type FilterProtocol = keyof typeof PROTOCOLS;

/** tcm_info: a filter's place among those of a link, and its protocol as a big-endian number. */
export function filterInfo(priority: number, protocol: FilterProtocol): number {
  const number = PROTOCOLS[protocol];
  return priority * 0x1_0000 + (littleEndian ? ((number & 0xff) << 8) | (number >> 8) : number);
}

/** Four bytes of a frame that must be so: the value in network order, and of which of its bits that is said. */
export interface FrameWord {
  /** Bytes from the network header; that of Ethernet begins at -14. */
  readonly offset: number;
  readonly mask: number;
  readonly value: number;
}

/** What says that a frame has these bytes at an offset. */
export function frameWords(offset: number, bytes: Uint8Array): readonly FrameWord[] {
  const words: FrameWord[] = [];
  for (let start = 0; start < bytes.length; start += 4) {
    let [mask, value] = [0, 0];
    for (let i = start; i < start + 4; i++) {
      mask = mask * 256 + (i < bytes.length ? 255 : 0);
      value = value * 256 + (bytes[i] ?? 0);
    }
    words.push({ offset: offset + start, mask, value });
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

/** What a classifier looks at. */
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
/** Actions are numbered in their order; there is one. */
const actionList = { first: [1, nested(actionAttributes)] } as const satisfies AttributeTable;

/** TCA_U32_*. */
export const u32Attributes = {
  selector: [5, selector],
  actions: [7, nested(actionList)],
} as const satisfies AttributeTable;

type Actions = AttributeValues<typeof actionList>;

/** Has a link send or receive the frame in the place of whoever has it (act_mirred). While the link is down, it is dropped. */
export function redirectTo(link: number, direction: Direction): Actions {
  return {
    first: {
      kind: KIND_ACTION,
      options: { parameters: { action: STOLEN, kind: DIRECTIONS[direction], link } },
    },
  };
}

/** A filter of what a link receives, and where the frames go that it matches. */
export interface ReceivedFilter {
  /** The link's. */
  readonly index: number;
  /** As {@link filterInfo} has it. */
  readonly info: number;
  readonly words: readonly FrameWord[];
  readonly actions: Actions;
}

/** Adds one to a link that has a place for classifiers. @param action what it is for, in words */
export function addReceivedFilter(action: string, { index, info, words, actions }: ReceivedFilter): Request {
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

/** Deletes all filters of what a link receives that have this place and protocol. @param info as {@link filterInfo} has it */
export function deleteReceivedFilters(index: number, info: number): Request {
  return request(
    `delete filters ${info >>> 16} of what link ${index} receives`,
    { type: RTM_DELTFILTER, flags: 0, layout: trafficControlLayout },
    { index, parent: RECEIVED, info },
    {},
  );
}

/** The index of the link to which actions redirect; undefined when they do anything else. */
export function redirectionOf(actions: Actions | undefined, direction: Direction): number | undefined {
  const action = actions?.first;
  const mirred = action?.kind === KIND_ACTION ? action.options?.parameters : undefined;
  return mirred?.kind === DIRECTIONS[direction] && mirred.action === STOLEN ? mirred.link : undefined;
}
