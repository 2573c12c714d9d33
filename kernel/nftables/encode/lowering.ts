import { expressionTypes } from "../model/expression.ts";
import { checkInteger, checkLogPrefix, checkName, checkTimeout } from "../model/identifier.ts";
import { type Instruction, instruction } from "./instruction.ts";
import { type AnonymousSet, RuleCode } from "./rule_code.ts";
import { register, valueBytes, VERDICT_REGISTER } from "./register.ts";
import { lowerMatch } from "./match_code.ts";
import type { TableFamily } from "../model/object.ts";
import { rejectionOf } from "./reject_code.ts";
import { lowerRewrite } from "./rewrite_code.ts";
import type { RateLimit, Rule, Statement, Verdict } from "../model/statement.ts";

/** NF_* and NFT_*: the codes of verdicts (include/uapi/linux/netfilter.h, nf_tables.h). */
export const verdictCodes = { drop: 0, accept: 1, jump: -3, goto: -4, return: -5 } as const;

const unitSeconds = { second: 1n, hour: 3600n } as const;
const LIMIT_PACKETS = 0;
const LIMIT_INVERTED = 1;
/** NFT_QUEUE_FLAG_BYPASS */
const QUEUE_BYPASS = 1;
const dynamicOperations = { add: 0, update: 1, delete: 2 } as const;

/** A rule in the kernel's form. */
export interface LoweredRule {
  readonly instructions: readonly Instruction[];
  readonly anonymousSets: readonly AnonymousSet[];
}

/**
 * Translates a rule into the kernel's instructions, including the tests that nft would add by itself.
 *
 * @param nextSetId returns a number of its own for each anonymous set of a batch
 * @throws DrawbridgeError ERR_NFTABLES_VALUE for an invalid name, and for a value that does not suit its field's type
 */
export function lowerRule(rule: Rule, family: TableFamily, nextSetId: () => number): LoweredRule {
  const code = new RuleCode(family, nextSetId);
  for (const statement of rule.statements) lowerStatement(code, statement);
  return { instructions: code.instructions, anonymousSets: code.anonymousSets };
}

/** Returns a verdict as the kernel's data. @throws DrawbridgeError ERR_NFTABLES_VALUE for an invalid chain name */
export function verdictData(verdict: Verdict): {
  readonly verdict: { readonly code: number; readonly chain?: string };
} {
  const code = verdictCodes[verdict.kind] >>> 0;
  return { verdict: "chain" in verdict ? { code, chain: checkName("chain", verdict.chain) } : { code } };
}

/** Returns the verdict of a code and a chain's name; undefined for a verdict that we do not use. */
export function verdictOf(code: number, chain: string | undefined): Verdict | undefined {
  const signed = code | 0;
  for (const kind of ["accept", "drop", "return"] as const) {
    if (verdictCodes[kind] === signed) return { kind };
  }
  for (const kind of ["jump", "goto"] as const) {
    if (verdictCodes[kind] === signed && chain !== undefined) return { kind, chain };
  }
  return undefined;
}

/** Emits one statement after the preceding ones. @throws DrawbridgeError as {@link lowerRule} */
export function lowerStatement(code: RuleCode, statement: Statement): void {
  switch (statement.kind) {
    case "match":
      return lowerMatch(code, statement);
    case "counter":
      return code.emit(instruction("counter", { bytes: 0n, packets: 0n }));
    case "verdict":
      return code.emit(instruction("immediate", { target: VERDICT_REGISTER, data: verdictData(statement.verdict) }));
    case "vmap":
      return lowerVerdictMap(code, statement);
    case "limit":
      return code.emit(limitInstruction(statement));
    case "log":
      return lowerLog(code, statement);
    case "queue": {
      const number = checkInteger("queue", statement.number, 0, 0xffff);
      return code.emit(instruction("queue", { number, total: 1, flags: QUEUE_BYPASS }));
    }
    case "reject": {
      if (statement.reply === "tcp reset") code.requireTransport("tcp");
      const { type, code: number } = rejectionOf(code, statement.reply);
      return code.emit(instruction("reject", { type, code: number }));
    }
    case "dynamic":
      return lowerDynamic(code, statement);
    default:
      return lowerRewrite(code, statement);
  }
}

function lowerVerdictMap(code: RuleCode, { key, mask, map }: Extract<Statement, { readonly kind: "vmap" }>): void {
  code.require(key);
  code.load(key, 0);
  if (mask !== undefined) code.mask(valueBytes(expressionTypes(key), [mask]));
  const set = checkName("map", map);
  code.emit(instruction("lookup", { set, source: register(0), target: VERDICT_REGISTER, flags: 0 }));
}

function limitInstruction({ rate, unit, burst, isOver }: RateLimit): Instruction {
  return instruction("limit", {
    rate: BigInt(checkInteger("limit rate", rate, 1, 0xffffffff)),
    unit: unitSeconds[unit],
    burst: checkInteger("limit burst", burst, 1, 0xffffffff),
    type: LIMIT_PACKETS,
    flags: isOver ? LIMIT_INVERTED : 0,
  });
}

function lowerLog(code: RuleCode, { prefix, group, snapLength }: Extract<Statement, { readonly kind: "log" }>): void {
  code.emit(
    instruction("log", {
      group: checkInteger("log group", group, 0, 0xffff),
      prefix: checkLogPrefix(prefix),
      snapLength: checkInteger("log snapLength", snapLength, 1, 0xffff),
    }),
  );
}

function lowerDynamic(code: RuleCode, statement: Extract<Statement, { readonly kind: "dynamic" }>): void {
  code.require(statement.key);
  if (statement.data !== undefined) code.require(statement.data);
  const end = code.load(statement.key, 0);
  // A hash needs the registers after it for its input.
  const dataPosition = typeof statement.data === "object" ? end : (end + 3) & ~3;
  if (statement.data !== undefined) code.load(statement.data, dataPosition);
  code.emit(
    instruction("dynset", {
      set: checkName("set", statement.set),
      operation: dynamicOperations[statement.operation],
      key: register(0),
      ...(statement.data === undefined ? {} : { data: register(dataPosition) }),
      ...(statement.timeout === undefined ? {} : { timeout: checkTimeout(statement.timeout) }),
      ...(statement.limit === undefined ? {} : { instruction: limitInstruction(statement.limit) }),
    }),
  );
}
