import { DrawbridgeError } from "../error.ts";
import { littleEndian } from "../byte_order.ts";
import type { AttributeTable, AttributeType, AttributeValues } from "./attribute.ts";

/** The size of an attribute's header: its length and its number. */
const HEADER = 4;
/** The low 14 bits of the type field are the number. The other bits mean "nested" and "network byte order". */
const NUMBER_MASK = 0x3fff;

/** Returns the error for a malformed attribute. */
export function malformed(what: string): DrawbridgeError {
  return new DrawbridgeError("ERR_NETLINK_MALFORMED", `netlink attribute: ${what}`);
}

/** Returns the error for an attribute's length that does not fit the bytes left. */
function wrongLength(length: number, left: number): DrawbridgeError {
  return malformed(`length ${length} with ${left} bytes left`);
}

/** Demands that the bytes after the last attribute are zeros: alignment, shorter than a header. */
function demandPadding(buffer: Uint8Array, start: number, end: number): void {
  for (let i = start; i < end; i++) if (buffer[i] !== 0) throw malformed(`${end - start} stray bytes`);
}

/** Steps through attributes of a buffer without an object for each, because set elements come by the ten thousand. */
export class AttributeCursor {
  readonly #buffer: Uint8Array;
  readonly #view: DataView;
  #offset = 0;
  #limit = 0;
  /** The number of the current attribute, and the start and end of its payload in the buffer. */
  number = 0;
  start = 0;
  end = 0;

  constructor(buffer: Uint8Array) {
    this.#buffer = buffer;
    this.#view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  }

  /** Moves before the first attribute between two offsets of the buffer. */
  enter(start: number, end: number): this {
    this.#offset = start;
    this.#limit = end;
    return this;
  }

  /**
   * Moves to the next attribute.
   *
   * @returns false after the last one
   * @throws DrawbridgeError ERR_NETLINK_MALFORMED when the attribute does not fit
   */
  next(): boolean {
    const offset = this.#offset;
    const left = this.#limit - offset;
    if (left < HEADER) {
      demandPadding(this.#buffer, offset, this.#limit);
      return false;
    }
    const length = this.#view.getUint16(offset, littleEndian);
    if (length < HEADER || length > left) throw wrongLength(length, left);
    this.number = this.#view.getUint16(offset + 2, littleEndian) & NUMBER_MASK;
    this.start = offset + HEADER;
    this.end = offset + length;
    this.#offset = offset + ((length + 3) & ~3);
    return true;
  }
}

/**
 * Returns the attributes of a buffer as [number, payload]. The payloads are views of the buffer.
 *
 * Every step advances by at least a header's four bytes and stays inside the buffer, so hostile lengths end in an
 * error, never in a loop or a read outside the buffer.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED at the first attribute that does not fit
 */
export function eachAttribute(buffer: Uint8Array): readonly (readonly [number: number, payload: Uint8Array])[] {
  const found: (readonly [number, Uint8Array])[] = [];
  const cursor = new AttributeCursor(buffer).enter(0, buffer.length);
  while (cursor.next()) found.push([cursor.number, buffer.subarray(cursor.start, cursor.end)]);
  return found;
}

/**
 * Reads the attributes of a table. Unknown numbers are skipped, and the last attribute of a repeated number wins.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when a length or a payload does not suit its type
 */
export function decodeAttributes<T extends AttributeTable>(table: T, buffer: Uint8Array): AttributeValues<T> {
  const index = indexOf(table);
  const values: Record<string, unknown> = {};
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  const limit = buffer.length;
  let offset = 0;
  // As an AttributeCursor does, but without a call for each attribute: a link has some fifty.
  while (limit - offset >= HEADER) {
    const length = view.getUint16(offset, littleEndian);
    if (length < HEADER || length > limit - offset) throw wrongLength(length, limit - offset);
    const entry = index[view.getUint16(offset + 2, littleEndian) & NUMBER_MASK];
    if (entry !== undefined) values[entry[0]] = entry[1].decode(buffer.subarray(offset + HEADER, offset + length));
    offset += (length + 3) & ~3;
  }
  demandPadding(buffer, offset, limit);
  return values as AttributeValues<T>;
}

/** The attributes of a table by their number. */
type NumberIndex = readonly (readonly [name: string, type: AttributeType<unknown>] | undefined)[];

const indexes = new WeakMap<AttributeTable, NumberIndex>();

function indexOf(table: AttributeTable): NumberIndex {
  const known = indexes.get(table);
  if (known !== undefined) return known;
  const index: (readonly [string, AttributeType<unknown>])[] = [];
  for (const name in table) {
    const entry = table[name];
    if (entry !== undefined) index[entry[0]] = [name, entry[1]];
  }
  indexes.set(table, index);
  return index;
}

/**
 * Returns the name of the attribute at a byte offset ("linkinfo.data"), for the kernel's "bad attribute at offset N".
 *
 * @returns undefined when the offset is not the start of an attribute of this table
 */
export function attributeNameAt(table: AttributeTable, buffer: Uint8Array, target: number): string | undefined {
  let offset = 0;
  for (const [number, payload] of eachAttribute(buffer)) {
    const entry = indexOf(table)[number];
    if (offset === target) return entry?.[0];
    const inside = target - offset - HEADER;
    if (entry !== undefined && inside >= 0 && inside < payload.length) {
      const inner = entry[1].nested;
      const name = inner === undefined ? undefined : attributeNameAt(inner, payload, inside);
      return name === undefined ? entry[0] : `${entry[0]}.${name}`;
    }
    offset += (HEADER + payload.length + 3) & ~3;
  }
  return undefined;
}
