import { NETLINK_NETFILTER } from "../../netlink/netfilter_message.ts";
import { type AttributeTable, type AttributeType, be64, nested, string } from "../../netlink/attribute.ts";
import { decodeAttributes, eachAttribute } from "../../netlink/attribute_decoder.ts";
import type { ReceivedMessage, Request } from "../../netlink/message.ts";
import { NetlinkSocket } from "../../netlink/socket.ts";
import type { Syscalls } from "../../syscall/syscalls.ts";
import { elementCode } from "../encode/element.ts";
import { instructions } from "../encode/instruction.ts";
import { elementLayout, Message, nftablesRequest, ruleLayout } from "../encode/message.ts";
import { verdictOf } from "../encode/lowering.ts";
import type { Element, SetDefinition, TableReference } from "../model/object.ts";
import type { Verdict } from "../model/statement.ts";
import { ElementDecoder } from "./element_decoder.ts";
import { commentOf } from "../encode/userdata.ts";

/** An element and the number of packets that have matched it since it was written. */
export interface CountedElement {
  readonly element: Element;
  readonly packets: number;
}

/** A rule with a counter and a comment. */
export interface CountedRule {
  readonly chain: string;
  /** The kernel's number of the rule, unique in the table for all time. */
  readonly handle: bigint;
  readonly comment: string;
  readonly packets: number;
  /** The verdict at the rule's end; undefined when packets continue. */
  readonly verdict: Verdict | undefined;
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
  /**
   * Returns the rules of a table, or of one chain of it, that have a counter and a comment, in pieces. While other
   * programs write the table, some may be missing or listed twice. Without such a table or chain there are none.
   *
   * @throws SyscallError when the kernel cannot be asked
   */
  rules(table: TableReference, chain?: string): Iterable<readonly CountedRule[]>;
}

const COUNTER = new TextEncoder().encode("counter\0");
const IMMEDIATE = new TextEncoder().encode("immediate\0");

/** Whether an instruction is a counter. Decoding its text would double the time for tens of thousands of elements. */
const isCounter: AttributeType<boolean> = {
  encode: () => {},
  decode: (payload) => Buffer.compare(payload, COUNTER) === 0,
};

/** The attributes of an element's instruction that are needed here. */
const counterAttributes = {
  name: [1, isCounter],
  data: [2, nested(instructions.counter)],
} as const satisfies AttributeTable;

/** Returns the counters of the calling thread's namespace. Each list has its own socket, so it can be abandoned. */
export function nftablesCounters(syscalls: Syscalls): NftablesCounters {
  return Object.freeze({
    *elements(table: TableReference, set: SetDefinition) {
      const decoder = new ElementDecoder(elementCode(set));
      const kind = { message: Message.GET_ELEMENTS, family: table.family, layout: elementLayout };
      const operation = `list counters of ${table.family} ${table.name} ${set.name}`;
      const request = nftablesRequest(operation, kind, { table: table.name, set: set.name });
      for (const messages of listInPieces(syscalls, request)) {
        yield messages.flatMap((message) => countedElements(decoder, message));
      }
    },
    *rules(table: TableReference, chain?: string) {
      const kind = { message: Message.GET_RULE, family: table.family, layout: ruleLayout };
      const operation = `list rules of ${table.family} ${table.name}${chain === undefined ? "" : ` ${chain}`}`;
      const place = chain === undefined ? { table: table.name } : { table: table.name, chain };
      for (const messages of listInPieces(syscalls, nftablesRequest(operation, kind, place))) {
        yield messages.flatMap(countedRules);
      }
    },
  });
}

/** Yields a list in the pieces that the kernel sends. It has a socket of its own: an abandoned one is not read on. */
function* listInPieces(syscalls: Syscalls, request: Request): Generator<readonly ReceivedMessage[]> {
  const socket = new NetlinkSocket(syscalls, NETLINK_NETFILTER);
  try {
    const list = socket.datagrams(request);
    for (let step = list.next(); step.done !== true; step = list.next()) yield step.value;
  } finally {
    socket.close();
  }
}

function countedElements(decoder: ElementDecoder, { body }: ReceivedMessage): readonly CountedElement[] {
  const found: CountedElement[] = [];
  decoder.visit(body, (element, _flags, instruction) => {
    const { name, data } = instruction === undefined ? {} : decodeAttributes(counterAttributes, instruction);
    if (name === true) found.push({ element, packets: Number(data?.packets ?? 0n) });
  });
  return found;
}

/** Attributes of a rule and of its instructions, as in `ruleLayout`. */
const RuleField = { CHAIN: 2, HANDLE: 3, INSTRUCTIONS: 4, USERDATA: 7 } as const;
const InstructionField = { NAME: 1, DATA: 2 } as const;
const HEADER_BYTES = 4;

/** Thousands of rules are read at once, so only the needed attributes are decoded. */
function countedRules({ body }: ReceivedMessage): readonly CountedRule[] {
  const fields = new Map(eachAttribute(body.subarray(HEADER_BYTES)));
  const [chain, handle] = [fields.get(RuleField.CHAIN), fields.get(RuleField.HANDLE)];
  const userdata = fields.get(RuleField.USERDATA);
  const list = fields.get(RuleField.INSTRUCTIONS);
  if (chain === undefined || handle === undefined || userdata === undefined || list === undefined) return [];
  const found = eachAttribute(list).map(([, item]) => eachAttribute(item));
  const counter = dataOf(found.findLast((one) => isCalled(one, COUNTER)));
  if (counter === undefined) return [];
  const comment = commentOf(userdata);
  if (comment === undefined) return [];
  const packets = Number(decodeAttributes(instructions.counter, counter).packets ?? 0n);
  const last = found.at(-1);
  const verdict = last !== undefined && isCalled(last, IMMEDIATE) ? verdictIn(dataOf(last)) : undefined;
  return [{ chain: string.decode(chain), handle: be64.decode(handle), comment, packets, verdict }];
}

type Attributes = ReturnType<typeof eachAttribute>;

function isCalled(attributes: Attributes, wanted: Uint8Array): boolean {
  return attributes.some(
    ([number, payload]) => number === InstructionField.NAME && Buffer.compare(payload, wanted) === 0,
  );
}

function dataOf(attributes: Attributes | undefined): Uint8Array | undefined {
  return attributes?.find(([number]) => number === InstructionField.DATA)?.[1];
}

function verdictIn(immediate: Uint8Array | undefined): Verdict | undefined {
  if (immediate === undefined) return undefined;
  const { verdict } = decodeAttributes(instructions.immediate, immediate).data ?? {};
  return verdict?.code === undefined ? undefined : verdictOf(verdict.code, verdict.chain);
}
