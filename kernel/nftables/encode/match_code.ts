import { DrawbridgeError } from "../../error.ts";
import { bitsOf } from "../../ip/address.ts";
import { cidrFamily, networkAddress } from "../../ip/cidr.ts";
import type { DataType } from "../model/data_type.ts";
import { expressionTypes } from "../model/expression.ts";
import { checkName, isInterfaceNameText } from "../model/identifier.ts";
import { instruction } from "./instruction.ts";
import { CompareOperator, type RuleCode } from "./rule_code.ts";
import { register, valueBytes } from "./register.ts";
import type { Match, Operand } from "../model/statement.ts";

const LOOKUP_INVERTED = 1;
const RANGE_NOT_EQUAL = 1;

const ALL_BITS = 0xffffffff;

/** The kernel replaces %d by a free number. */
export const ANONYMOUS_NAME = "__set%d";

type OperandOf<K extends Operand["kind"]> = Extract<Operand, { readonly kind: K }>;

/**
 * Emits a match, with the protocol tests that its field needs.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when nft could not express it, or would read something else
 */
export function lowerMatch(code: RuleCode, { left, isNegated, right: given }: Match): void {
  const right = simplified(given);
  code.require(left);
  code.load(left, 0);
  const types = expressionTypes(left);
  switch (right.kind) {
    case "set": {
      const flags = isNegated ? LOOKUP_INVERTED : 0;
      return code.emit(instruction("lookup", { set: checkName("set", right.name), source: register(0), flags }));
    }
    case "anonymous":
      return lowerAnonymous(code, types, right, isNegated);
    default: {
      const [type, ...others] = types;
      if (type === undefined || others.length > 0) throw refuse(`${right.kind} beside a concatenation`, "a set");
      return lowerComparison(code, type, right, isNegated);
    }
  }
}

/**
 * Returns the operand as nft has it: a set or range of one value, and a value under a full mask, become the value.
 */
export function simplified(operand: Operand): Operand {
  if (operand.kind === "range") {
    return operand.first === operand.last ? { kind: "value", value: operand.first } : operand;
  }
  if (operand.kind === "masked" && operand.mask === ALL_BITS) return { kind: "value", value: operand.value };
  if (operand.kind !== "anonymous") return operand;
  const [value, ...others] = operand.values;
  return value === undefined || others.length > 0 ? operand : { kind: "value", value };
}

function lowerComparison(
  code: RuleCode,
  type: DataType,
  right: Exclude<Operand, OperandOf<"set" | "anonymous">>,
  isNegated: boolean,
): void {
  const operator = isNegated ? CompareOperator.NOT_EQUAL : CompareOperator.EQUAL;
  switch (right.kind) {
    case "value":
      if (type.name === "ct_label") return code.testBits(valueBytes([type], [right.value]), isNegated);
      return code.compare(operator, valueBytes([type], [right.value]));
    case "range":
      return lowerRange(code, type, right, isNegated);
    case "prefix":
      return lowerPrefix(code, type, right, operator);
    case "wildcard": {
      // The prefix and the asterisk must fit nft's buffer for a name.
      if (type.name !== "ifname" || !isInterfaceNameText(`${right.prefix}_`)) {
        throw refuse(
          `${type.name} ${JSON.stringify(right.prefix)} before "*"`,
          "the first 1 to 14 characters of a name",
        );
      }
      return code.compare(operator, new TextEncoder().encode(right.prefix));
    }
    case "flags":
      return code.testBits(flagsMask(type, right.names), isNegated);
    case "masked": {
      code.mask(valueBytes([type], [right.mask]));
      return code.compare(operator, valueBytes([type], [right.value]));
    }
  }
}

function lowerRange(code: RuleCode, type: DataType, { first, last }: OperandOf<"range">, isNegated: boolean): void {
  const [from, to] = [valueBytes([type], [first]), valueBytes([type], [last])];
  if (isNegated) {
    const bounds = { from: { value: from }, to: { value: to } };
    return code.emit(instruction("range", { source: register(0), operator: RANGE_NOT_EQUAL, ...bounds }));
  }
  code.compare(CompareOperator.GREATER_OR_EQUAL, from);
  code.compare(CompareOperator.LESS_OR_EQUAL, to);
}

function lowerPrefix(code: RuleCode, type: DataType, { cidr }: OperandOf<"prefix">, operator: number): void {
  const network = valueBytes([type], [networkAddress(cidr)]);
  const { prefixLength } = cidr;
  if (prefixLength === 0) throw refuse("a prefix of length 0", "at least 1: every address matches it");
  if (prefixLength < bitsOf(cidrFamily(cidr))) {
    const mask = new Uint8Array(network.length);
    for (let i = 0; i < prefixLength; i++) mask[i >> 3] = (mask[i >> 3] ?? 0) | (0x80 >> (i & 7));
    code.mask(mask);
  }
  code.compare(operator, network);
}

function lowerAnonymous(
  code: RuleCode,
  types: readonly DataType[],
  { values }: OperandOf<"anonymous">,
  isNegated: boolean,
): void {
  if (values.length === 0) throw refuse("a set of no elements", "at least one");
  const setId = code.addAnonymousSet({ types, values });
  const flags = isNegated ? LOOKUP_INVERTED : 0;
  code.emit(instruction("lookup", { set: ANONYMOUS_NAME, source: register(0), setId, flags }));
}

function flagsMask(type: DataType, names: readonly string[]): Uint8Array {
  if (!type.isBitmask || names.length === 0) throw refuse(`flags ${names.join(",")} of ${type.name}`, "names of bits");
  const mask = new Uint8Array(type.size);
  for (const name of names) {
    for (const [index, byte] of valueBytes([type], [name]).entries()) mask[index] = (mask[index] ?? 0) | byte;
  }
  return mask;
}

function refuse(what: string, expectation: string): DrawbridgeError {
  return new DrawbridgeError("ERR_NFTABLES_VALUE", `nftables match: ${what}; expected ${expectation}`);
}
