import { NETLINK_NETFILTER } from "../../netlink/netfilter_message.ts";
import {
  type AttributeTable,
  type AttributeType,
  decodeAttributes,
  eachAttribute,
  nested,
} from "../../netlink/attribute.ts";
import { decodeBody, type ReceivedMessage, type Request } from "../../netlink/message.ts";
import { NetlinkSocket } from "../../netlink/socket.ts";
import type { Syscalls } from "../../syscall/syscalls.ts";
import { type ElementCode, elementCode } from "../encode/element.ts";
import { compareBytes } from "../encode/element_bytes.ts";
import { instructions } from "../encode/instruction.ts";
import { elementAttributes, elementLayout, Message, nftablesRequest, ruleLayout } from "../encode/message.ts";
import type { Element, SetDefinition, TableReference } from "../model/object.ts";
import { elementOf } from "./element_list.ts";
import { commentOf } from "../encode/userdata.ts";

/** An element and the number of packets that have matched it since it was written. */
export interface CountedElement {
  readonly element: Element;
  readonly packets: number;
}

/** A rule with a counter, identified by its comment. */
export interface CountedRule {
  readonly comment: string;
  readonly packets: number;
}

/** Reads the counters of one network namespace; it writes nothing. */
export interface NftablesCounters {
  /**
   * Returns the elements of a set that have counters, in the pieces that the kernel sends. While other programs write
   * the set, some may be missing or listed twice.
   *
   * @throws NetlinkError ENOENT when there is no such set, SyscallError when the kernel cannot be asked
   */
  elements(table: TableReference, set: SetDefinition): Iterable<readonly CountedElement[]>;
  /** Returns a chain's rules with a counter and a comment, in pieces; none without the chain. @throws SyscallError */
  rules(table: TableReference, chain: string): Iterable<readonly CountedRule[]>;
}

const COUNTER = "counter";
const COUNTER_BYTES = new TextEncoder().encode(`${COUNTER}\0`);

/** Whether an instruction is a counter. Decoding its text would double the time for tens of thousands of elements. */
const isCounter: AttributeType<boolean> = {
  encode: () => {},
  decode: (payload) => compareBytes(payload, COUNTER_BYTES) === 0,
};

/** The attributes of an element that are needed here. */
const countedAttributes = {
  key: elementAttributes.key,
  data: elementAttributes.data,
  instruction: [7, nested({ name: [1, isCounter], data: [2, nested(instructions.counter)] })],
} as const satisfies AttributeTable;

/** Returns the counters of the calling thread's namespace. Each list has its own socket, so it can be abandoned. */
export function nftablesCounters(syscalls: Syscalls): NftablesCounters {
  return Object.freeze({
    *elements(table: TableReference, set: SetDefinition) {
      const code = elementCode(set);
      const kind = { message: Message.GET_ELEMENTS, family: table.family, layout: elementLayout };
      const operation = `list counters of ${table.family} ${table.name} ${set.name}`;
      const request = nftablesRequest(operation, kind, { table: table.name, set: set.name });
      for (const messages of listInPieces(syscalls, request)) {
        yield messages.flatMap((message) => countedElements(code, message));
      }
    },
    *rules(table: TableReference, chain: string) {
      const kind = { message: Message.GET_RULE, family: table.family, layout: ruleLayout };
      const operation = `list rules of ${table.family} ${table.name} ${chain}`;
      for (const messages of listInPieces(syscalls, nftablesRequest(operation, kind, { table: table.name, chain }))) {
        yield messages.flatMap(countedRules);
      }
    },
  });
}

/** Yields a list in the pieces that the kernel sends. It has a socket of its own, so it can be abandoned. */
export function* listInPieces(syscalls: Syscalls, request: Request): Generator<readonly ReceivedMessage[]> {
  const socket = new NetlinkSocket(syscalls, NETLINK_NETFILTER);
  try {
    yield* socket.datagrams(request);
  } finally {
    socket.close();
  }
}

function countedElements(code: ElementCode, { body }: ReceivedMessage): readonly CountedElement[] {
  const { elements } = decodeBody(elementLayout, body).attributes;
  if (elements === undefined) return [];
  return eachAttribute(elements).flatMap(([, payload]) => {
    const { key, data, instruction } = decodeAttributes(countedAttributes, payload);
    if (key?.value === undefined || instruction?.name !== true) return [];
    const packets = Number(instruction.data?.packets ?? 0n);
    return [{ element: elementOf(code, { key, ...(data === undefined ? {} : { data }) }, key.value), packets }];
  });
}

function countedRules({ body }: ReceivedMessage): readonly CountedRule[] {
  const { userdata, instructions: found = [] } = decodeBody(ruleLayout, body).attributes;
  const comment = commentOf(userdata);
  const counter = found.find(({ name }) => name === COUNTER);
  if (counter === undefined || comment === undefined) return [];
  return [{ comment, packets: Number(decodeAttributes(instructions.counter, counter.data).packets ?? 0n) }];
}
