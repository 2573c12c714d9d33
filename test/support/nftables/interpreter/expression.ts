import {
  type Concatenation,
  type Expression,
  expressionTypes,
  type MapLookup,
  type Selector,
} from "../../../../kernel/nftables/model/expression.ts";
import type { Match } from "../../../../kernel/nftables/model/statement.ts";
import { bitsOf } from "../../../../kernel/ip/address.ts";
import { cidrFamily, networkAddress } from "../../../../kernel/ip/cidr.ts";
import { readField } from "./field.ts";
import type { WalkedPacket } from "./packet.ts";
import type { LoadedTable } from "./ruleset.ts";
import { keyBounds, meets } from "./set_content.ts";
import type { HashInput, Surroundings } from "./surroundings.ts";
import { isBetween, type Value, valueOf } from "./value.ts";

/** The state with which a rule is evaluated. */
export interface Scope {
  readonly packet: WalkedPacket;
  readonly table: LoadedTable;
  readonly surroundings: Surroundings;
}

/**
 * Returns the values of an expression, one for each field; undefined where the packet lacks a field, which ends the
 * rule.
 */
export function readAll(
  { packet, surroundings }: Scope,
  expression: Exclude<Expression, MapLookup>,
): readonly Value[] | undefined {
  const parts = typeof expression === "object" && expression.kind === "concatenation" ? expression.parts : [expression];
  const values: Value[] = [];
  for (const part of parts) {
    const value = readPart(packet, surroundings, part);
    if (value === undefined) return undefined;
    values.push(value);
  }
  return values;
}

function readPart(
  packet: WalkedPacket,
  surroundings: Surroundings,
  part: Exclude<Expression, MapLookup | Concatenation>,
): Value | undefined {
  if (typeof part === "string") return readField(packet, surroundings, part);
  if (part.kind === "numgen") return BigInt(chosen(surroundings, part.modulus));
  const hashed = part.of.map((selector: Selector) => readField(packet, surroundings, selector));
  const known = hashed.filter((value) => value !== undefined);
  return known.length < hashed.length
    ? undefined
    : BigInt(chosen(surroundings, part.modulus, { expression: part, values: known }));
}

function chosen({ choose }: Surroundings, modulus: number, hash?: HashInput): number {
  const number = choose(modulus, hash);
  if (!Number.isInteger(number) || number < 0 || number >= modulus) throw new Error(`chose ${number} of ${modulus}`);
  return number;
}

/** Returns what a map holds for a packet; undefined for nothing, which ends the rule. */
export function readMap(scope: Scope, { key, map }: MapLookup): readonly Value[] | undefined {
  const values = readAll(scope, key);
  const data = values === undefined ? undefined : scope.table.set(map).lookup(values)?.data;
  if (data === undefined) return undefined;
  if ("kind" in data) throw new Error(`map ${map} holds verdicts`);
  return data;
}

/** Whether a packet passes a test; a packet without the field passes neither the test nor its opposite. */
export function isMatched(scope: Scope, match: Match): boolean {
  const values = readAll(scope, match.left);
  return values !== undefined && fits(scope, match, values) !== match.isNegated;
}

function fits({ table }: Scope, { left, right }: Match, values: readonly Value[]): boolean {
  const types = expressionTypes(left);
  if (right.kind === "set") return table.set(right.name).lookup(values) !== undefined;
  if (right.kind === "anonymous") return right.values.some((value) => meets(keyBounds(types, [value]), values));
  const [value, ...others] = values;
  const [type] = types;
  if (value === undefined || type === undefined || others.length > 0)
    throw new Error(`${right.kind} of several fields`);
  switch (right.kind) {
    case "value":
      // A connection has many labels, and a rule tests one of them.
      if (type.name === "ct_label") return (BigInt(value) & (1n << BigInt(right.value))) !== 0n;
      return value === valueOf(type, right.value);
    case "range":
      return isBetween(value, valueOf(type, right.first), valueOf(type, right.last));
    case "prefix": {
      const hostBits = BigInt(bitsOf(cidrFamily(right.cidr)) - right.cidr.prefixLength);
      return BigInt(value) >> hostBits === BigInt(networkAddress(right.cidr)) >> hostBits;
    }
    case "wildcard":
      return typeof value === "string" && value.startsWith(right.prefix);
    case "flags":
      return right.names.some((name) => (BigInt(value) & BigInt(valueOf(type, name))) !== 0n);
    case "masked":
      return (BigInt(value) & BigInt(right.mask)) === BigInt(right.value);
  }
}
