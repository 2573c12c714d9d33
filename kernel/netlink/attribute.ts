import { littleEndian } from "../byte_order.ts";
import type { Writer } from "../byte_writer.ts";
import { type Address, addressFromBytes, addressToBytes } from "../ip/address.ts";
import { type MacAddress, macFromBytes, macToBytes } from "../ip/mac.ts";
import { decodeAttributes, eachAttribute, malformed } from "./attribute_decoder.ts";
import { encodeAttribute, encodeAttributes, NESTED } from "./message.ts";

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
