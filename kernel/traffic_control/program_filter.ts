import { type AttributeTable, string, u32 } from "../netlink/attribute.ts";
import { decodeAttributes } from "../netlink/attribute_decoder.ts";
import {
  attributeBytes,
  decodeBody,
  MessageFlag,
  type ReceivedMessage,
  type Request,
  request,
} from "../netlink/message.ts";
import { filterInfo, RTM_DELTFILTER, RTM_GETTFILTER, RTM_NEWTFILTER } from "./filter.ts";
import { RECEIVED, SENT, trafficControlLayout } from "./message.ts";

/** The classifier that is a BPF program (net/sched/cls_bpf.c). */
export const KIND_PROGRAM = "bpf";

/** TCA_BPF_FLAG_ACT_DIRECT: the program's result is the verdict on the frame. */
const DIRECT = 1;

/** TCA_BPF_*. A program is given by its descriptor, and listed by its id. */
export const programAttributes = {
  descriptor: [6, u32],
  name: [7, string],
  flags: [8, u32],
  id: [11, u32],
} as const satisfies AttributeTable;

const PARENTS = { received: RECEIVED, sent: SENT } as const;

/** The place of a program that sees all frames that a link receives, or all that it sends. */
export interface ProgramPlace {
  readonly frames: keyof typeof PARENTS;
  /** The kernel calls programs in ascending order of priority, until one decides. */
  readonly priority: number;
  /** The number among the programs of one priority, which other programs do not use. */
  readonly handle: number;
}

/** A program at a link. */
export interface ProgramFilter {
  readonly name: string;
  readonly id: number;
}

/**
 * Returns the request to call a program at a link that has classifiers; EEXIST when the place is taken, ENOENT without
 * NET_CLS_BPF.
 *
 * @param link the link's index
 * @param program the program's descriptor; the filter keeps the program, which may be closed
 */
export function addProgram(link: number, place: ProgramPlace, name: string, program: number): Request {
  return request(
    `call the program ${name} for what link ${link} has ${place.frames}`,
    { type: RTM_NEWTFILTER, flags: MessageFlag.CREATE | MessageFlag.EXCL, layout: trafficControlLayout },
    headerOf(link, place),
    { kind: KIND_PROGRAM, options: attributeBytes(programAttributes, { descriptor: program, name, flags: DIRECT }) },
  );
}

/** Returns the request for the filter at a place; ENOENT or EINVAL when there is none. */
export function getProgram(link: number, place: ProgramPlace): Request {
  return request(
    `find the program for what link ${link} has ${place.frames}`,
    { type: RTM_GETTFILTER, flags: 0, layout: trafficControlLayout, isAnswered: true },
    headerOf(link, place),
    { kind: KIND_PROGRAM },
  );
}

/** Returns the request to remove the program at a place; ENOENT or EINVAL when there is none. */
export function deleteProgram(link: number, place: ProgramPlace): Request {
  return request(
    `remove the program for what link ${link} has ${place.frames}`,
    { type: RTM_DELTFILTER, flags: 0, layout: trafficControlLayout },
    headerOf(link, place),
    { kind: KIND_PROGRAM },
  );
}

function headerOf(link: number, { frames, priority, handle }: ProgramPlace) {
  return { index: link, parent: PARENTS[frames], info: filterInfo(priority, "all"), handle };
}

/**
 * Returns the program in a RTM_NEWTFILTER message; undefined for any other filter.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseProgram(message: ReceivedMessage): ProgramFilter | undefined {
  const { attributes } = decodeBody(trafficControlLayout, message.body);
  if (attributes.kind !== KIND_PROGRAM || attributes.options === undefined) return undefined;
  const { name, id } = decodeAttributes(programAttributes, attributes.options);
  return name === undefined || id === undefined ? undefined : { name, id };
}
