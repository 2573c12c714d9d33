import { be64, decodeAttributes, eachAttribute, string } from "../../netlink/attribute.ts";
import type { ReceivedMessage } from "../../netlink/message.ts";
import type { Syscalls } from "../../syscall/syscalls.ts";
import { listInPieces } from "./counters.ts";
import { compareBytes } from "../encode/element_bytes.ts";
import { instructions } from "../encode/instruction.ts";
import { Message, nftablesRequest, ruleLayout } from "../encode/message.ts";
import type { TableReference } from "../model/object.ts";
import { verdictOf } from "../encode/lowering.ts";
import type { Verdict } from "../model/statement.ts";
import { commentOf } from "../encode/userdata.ts";

/** A rule with a counter and a comment. */
export interface CountedTableRule {
  readonly chain: string;
  /** The kernel's number of the rule, unique in the table for all time. */
  readonly handle: bigint;
  readonly comment: string;
  readonly packets: number;
  /** The verdict at the rule's end; undefined when packets continue. */
  readonly verdict: Verdict | undefined;
}

/** Reads the counters of rules of one network namespace; it writes nothing. */
export interface RuleCounters {
  /**
   * Returns the rules of a table, or of one chain of it, in pieces. While other programs write the table, some may be
   * missing or listed twice. Without such a table or chain there are none.
   *
   * @throws SyscallError when the kernel cannot be asked
   */
  rules(table: TableReference, chain?: string): Iterable<readonly CountedTableRule[]>;
}

/** Returns the counters of the calling thread's namespace. */
export function ruleCounters(syscalls: Syscalls): RuleCounters {
  return Object.freeze({
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

/** Attributes of a rule and of its instructions, as in `ruleLayout`. */
const RuleField = { CHAIN: 2, HANDLE: 3, INSTRUCTIONS: 4, USERDATA: 7 } as const;
const InstructionField = { NAME: 1, DATA: 2 } as const;
const HEADER_BYTES = 4;
const COUNTER = name("counter");
const IMMEDIATE = name("immediate");

/** Thousands of rules are read at once, so only the needed attributes are decoded. */
function countedRules({ body }: ReceivedMessage): readonly CountedTableRule[] {
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
    ([number, payload]) => number === InstructionField.NAME && compareBytes(payload, wanted) === 0,
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

function name(text: string): Uint8Array {
  return new TextEncoder().encode(`${text}\0`);
}
