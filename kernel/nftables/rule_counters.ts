import { be64, decodeAttributes, eachAttribute, string } from "../netlink/attribute.ts";
import type { ReceivedMessage } from "../netlink/message.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import { listInPieces } from "./counters.ts";
import { compareBytes } from "./element_bytes.ts";
import { instructions } from "./instruction.ts";
import { Message, nftablesRequest, ruleLayout } from "./message.ts";
import type { TableReference } from "./object.ts";
import { verdictOf } from "./rule_code.ts";
import type { Verdict } from "./statement.ts";
import { commentOf } from "./userdata.ts";

/** A rule that counts and has a comment. */
export interface CountedTableRule {
  readonly chain: string;
  /** The kernel's number of the rule: no other of the table ever has it. */
  readonly handle: bigint;
  readonly comment: string;
  readonly packets: number;
  /** What the rule ends with; undefined where packets go on. */
  readonly verdict: Verdict | undefined;
}

/** Reads the counters of rules of one network namespace; it writes nothing. */
export interface RuleCounters {
  /**
   * The rules of a whole table, in pieces; of one chain where it is named. While others write the table some may be
   * missing or told twice. None where there is no such table or chain.
   *
   * @throws SyscallError when the kernel cannot be asked
   */
  rules(table: TableReference, chain?: string): Iterable<readonly CountedTableRule[]>;
}

/** The counters of the namespace the calling thread is in. */
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

/** Thousands are told at once, and most of what a rule says is of no matter here: only what is asked for is decoded. */
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
