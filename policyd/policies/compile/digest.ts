import { hash } from "node:crypto";

/** Authors of policies choose what is hashed: 96 bits prevent collisions of groups, sets or profiles on purpose. */
const CHARACTERS = 24;

/** Returns the first 24 hexadecimal digits of a hash of a value that JSON can represent. */
export function digest(value: unknown): string {
  return hash("sha256", JSON.stringify(value)).slice(0, CHARACTERS);
}
