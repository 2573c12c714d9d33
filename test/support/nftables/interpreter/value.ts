import type { DataType, Scalar } from "../../../../kernel/nftables/model/data_type.ts";

/** A value as the interpreter compares it: a number, or the text of a name or an Ethernet address. */
export type Value = bigint | string;

/** Returns the normal form of a value of a type: symbols as their numbers. */
export function valueOf(type: DataType, scalar: Scalar): Value {
  if (type.name === "ifname" || type.name === "ether_addr") return String(scalar);
  const number = typeof scalar === "string" ? type.symbols.get(scalar) : scalar;
  if (number === undefined) throw new Error(`${type.name} has no symbol ${JSON.stringify(scalar)}`);
  return BigInt(number);
}

/** Whether a value lies between two others, both included. Texts have no order: only an equal text is between. */
export function isBetween(value: Value, first: Value, last: Value): boolean {
  if (typeof value === "bigint" && typeof first === "bigint" && typeof last === "bigint") {
    return first <= value && value <= last;
  }
  return value === first && value === last;
}
