import type { Reader } from "../reader.ts";
import { invalid } from "../reader.ts";

/**
 * Which of these members an object has, being allowed one and no other: another is of a later API, and what it would
 * mean for the one we know is not ours to guess.
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
