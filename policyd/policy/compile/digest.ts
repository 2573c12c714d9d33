import { createHash } from "node:crypto";

/**
 * Who writes policies chooses what is hashed: 96 bits, so that nobody finds a group, a set or a profile with the name of
 * another one's.
 */
const CHARACTERS = 24;

/** The first 24 hexadecimal digits of a hash of a value that JSON has a text for. */
export function digest(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, CHARACTERS);
}
