import { invalid, type Reader } from "./reader.ts";

/**
 * Returns the name of an object's only member, which must be one of the given names. A second member is of a later API,
 * and what it means for the known one is not ours to guess.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function onlyMember<const T extends string>(reader: Reader, names: readonly T[]): T {
  const members = reader.entries().flatMap(([member, value]) => (value === null ? [] : [member]));
  const name = names.find((candidate) => members.includes(candidate));
  if (name !== undefined && members.length === 1) return name;
  const found = members.length === 0 ? "nothing" : members.slice(0, 5).join(", ");
  throw invalid(reader.field, found, `exactly one of ${names.join(", ")}`);
}
