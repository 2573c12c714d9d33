import { Buffer } from "node:buffer";

const LENGTH_DELIMITED = 2;
const VARINT = 0;

/** A value of a protobuf message: text, a number, or a message of its own. */
export type Value = string | number | Message;

/** Fields by their numbers. */
export interface Message {
  readonly [field: number]: Value;
}

/**
 * Encodes a message in protobuf's wire format, of which this benchmark only uses texts, unsigned numbers and messages.
 */
export function encodeMessage(message: Message): Buffer {
  const parts = Object.entries(message).map(([field, value]: [string, Value]) => {
    const number = Number(field);
    if (typeof value === "number") return Buffer.concat([varint((number << 3) | VARINT), varint(value)]);
    const content = typeof value === "string" ? Buffer.from(value) : encodeMessage(value);
    return Buffer.concat([varint((number << 3) | LENGTH_DELIMITED), varint(content.length), content]);
  });
  return Buffer.concat(parts);
}

/**
 * Returns the text of a message's first field, if that is its field 1.
 *
 * @returns undefined when the message begins with something else
 */
export function firstText(message: Buffer): string | undefined {
  if (message[0] !== ((1 << 3) | LENGTH_DELIMITED)) return undefined;
  const length = message[1];
  // Identifiers of sandboxes are shorter than the first length that needs a second byte.
  if (length === undefined || length >= 0x80) return undefined;
  return message.subarray(2, 2 + length).toString();
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return Buffer.from([...bytes, rest]);
}
