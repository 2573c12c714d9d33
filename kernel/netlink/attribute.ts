import { littleEndian } from "../byte_order.ts";
import { Writer } from "../byte_writer.ts";
import { type Address, addressFromBytes, addressToBytes } from "../ip/address.ts";
import { type MacAddress, macFromBytes, macToBytes } from "../ip/mac.ts";
import { AttributeCursor, demandPadding, HEADER, malformed, NUMBER_MASK, wrongLength } from "./attribute_cursor.ts";

/** The encoding of an attribute's payload. */
export interface AttributeType<T> {
  /** The table of a nested attribute, so that errors can name an attribute inside it. */
  readonly nested?: AttributeTable;
  encode(writer: Writer, value: T): void;
  /** @throws DrawbridgeError ERR_NETLINK_MALFORMED when the payload is not one of this type */
  decode(payload: Uint8Array): T;
}

/** Attributes by name: their kernel number and the type of their payload. */
export type AttributeTable = Readonly<Record<string, readonly [number: number, type: AttributeType<unknown>]>>;

/** The values of a table's attributes as a message carries them; all are optional. */
export type AttributeValues<T extends AttributeTable> = {
  readonly [K in keyof T]?: T[K] extends readonly [number, AttributeType<infer V>] ? V : never;
};

/** The values of a table's attributes to send; undefined ones are omitted. */
export type AttributeInput<T extends AttributeTable> = { readonly [K in keyof T]?: AttributeValues<T>[K] | undefined };

const NESTED = 0x8000;
/** The largest attribute, header included, that the 16-bit length field can describe. */
const MAX_LENGTH = 0xffff;

function exactly(payload: Uint8Array, length: number): DataView {
  if (payload.length !== length) throw malformed(`${payload.length} bytes; expected ${length}`);
  return new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
}

export const u8: AttributeType<number> = {
  encode: (writer, value) => writer.u8(value),
  decode: (payload) => exactly(payload, 1).getUint8(0),
};

export const u16: AttributeType<number> = {
  encode: (writer, value) => writer.u16(value),
  decode: (payload) => exactly(payload, 2).getUint16(0, littleEndian),
};

export const u32: AttributeType<number> = {
  encode: (writer, value) => writer.u32(value),
  decode: (payload) => exactly(payload, 4).getUint32(0, littleEndian),
};

export const i32: AttributeType<number> = {
  encode: (writer, value) => writer.i32(value),
  decode: (payload) => exactly(payload, 4).getInt32(0, littleEndian),
};

export const u64: AttributeType<bigint> = {
  encode: (writer, value) => writer.u64(value),
  decode: (payload) => exactly(payload, 8).getBigUint64(0, littleEndian),
};

/** Unsigned numbers in network byte order, as netfilter uses them. */
export const be16: AttributeType<number> = {
  encode: (writer, value) => writer.be16(value),
  decode: (payload) => exactly(payload, 2).getUint16(0),
};

export const be32: AttributeType<number> = {
  encode: (writer, value) => writer.be32(value),
  decode: (payload) => exactly(payload, 4).getUint32(0),
};

export const be64: AttributeType<bigint> = {
  encode: (writer, value) => writer.be64(value),
  decode: (payload) => exactly(payload, 8).getBigUint64(0),
};

/** A presence flag without payload. Never encode `false`: leave the attribute out. */
export const flag: AttributeType<true> = {
  encode: () => {},
  decode: (payload) => {
    exactly(payload, 0);
    return true;
  },
};

export const bytes: AttributeType<Uint8Array> = {
  encode: (writer, value) => writer.bytes(value),
  decode: (payload) => payload.slice(),
};

const SHORT_TEXT = 32;
/** Decodes a byte order mark like any other character, because it is part of a name. */
const textDecoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** A string that ends with NUL on the wire. A NUL inside is an error, because the kernel would cut the string there. */
export const string: AttributeType<string> = {
  encode: (writer, value) => {
    if (value.includes("\0")) throw malformed(`string ${JSON.stringify(value)} contains a NUL byte`);
    writer.text(value);
    writer.u8(0);
  },
  decode: (payload) => {
    const end = payload.indexOf(0);
    return textOf(end < 0 ? payload : payload.subarray(0, end));
  },
};

/** Decodes text, without a decoder if it is short ASCII, as names are: a decoder takes three times as long. */
function textOf(payload: Uint8Array): string {
  if (payload.length > SHORT_TEXT) return textDecoder.decode(payload);
  let text = "";
  for (let i = 0; i < payload.length; i++) {
    const byte = payload[i] ?? 0;
    if (byte > 127) return textDecoder.decode(payload);
    text += String.fromCharCode(byte);
  }
  return text;
}

/** An IPv4 or IPv6 address in network byte order. Its length determines the family. */
export const address: AttributeType<Address> = {
  encode: (writer, value) => writer.bytes(addressToBytes(value)),
  decode: (payload) => {
    if (payload.length !== 4 && payload.length !== 16) throw malformed(`${payload.length} bytes; expected 4 or 16`);
    return addressFromBytes(payload);
  },
};

/** An Ethernet address. */
export const mac: AttributeType<MacAddress> = {
  encode: (writer, value) => writer.bytes(macToBytes(value)),
  decode: (payload) => {
    exactly(payload, 6);
    return macFromBytes(payload);
  },
};

/** Returns the type of an attribute that contains attributes. */
export function nested<T extends AttributeTable>(table: T): AttributeType<AttributeValues<T>> {
  return {
    nested: table,
    encode: (writer, values) => encodeAttributes(writer, table, values),
    decode: (payload) => decodeAttributes(table, payload),
  };
}

/** Returns the type of a list: an attribute with one inner attribute of `number` per item; others are skipped. */
export function list<T>(number: number, item: AttributeType<T>): AttributeType<readonly T[]> {
  return {
    encode: (writer, values) => {
      for (const value of values) encodeAttribute(writer, number | NESTED, item, value);
    },
    decode: (payload) =>
      eachAttribute(payload)
        .filter(([found]) => found === number)
        .map(([, content]) => item.decode(content)),
  };
}

/**
 * Appends the attributes that have a value, in the order of the values, on which the kernel does not depend.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when a payload is too long for a 16-bit length
 */
export function encodeAttributes<T extends AttributeTable>(writer: Writer, table: T, values: AttributeInput<T>): void {
  for (const name in values) {
    const value: unknown = values[name];
    const entry = value === undefined ? undefined : table[name];
    if (entry !== undefined) encodeAttribute(writer, entry[0], entry[1], value);
  }
}

function encodeAttribute<T>(writer: Writer, number: number, type: AttributeType<T>, value: T): void {
  const start = writer.beginAttribute(type.nested === undefined ? number : number | NESTED);
  type.encode(writer, value);
  endAttribute(writer, start);
}

/**
 * Ends an attribute whose payload the caller has written, at the place that {@link Writer.beginAttribute} returned.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when the payload is too long for a 16-bit length
 */
export function endAttribute(writer: Writer, start: number): void {
  const length = writer.endAttribute(start);
  if (length > MAX_LENGTH) throw malformed(`${length} bytes; expected at most ${MAX_LENGTH}`);
}

/** Returns the attributes of a table as bytes, for a payload whose table depends on a sibling (IFLA_INFO_DATA). */
export function attributeBytes<T extends AttributeTable>(table: T, values: AttributeInput<T>): Uint8Array {
  const writer = new Writer(64);
  encodeAttributes(writer, table, values);
  return writer.view();
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
