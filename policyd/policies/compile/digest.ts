import { createHash } from "node:crypto";

/** Authors of policies choose what is hashed: 96 bits prevent collisions of groups, sets or profiles on purpose. */
const CHARACTERS = 24;

/** Returns the first 24 hexadecimal digits of a hash of a value that JSON can represent. */
export function digest(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, CHARACTERS);
}
