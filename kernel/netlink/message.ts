import { DrawbridgeError } from "../error.ts";
import type { AttributeInput, AttributeTable, AttributeType, AttributeValues } from "./attribute.ts";
import { attributeNameAt, decodeAttributes, malformed } from "./attribute_decoder.ts";
import { littleEndian } from "../byte_order.ts";
import type { FeatureName } from "../missing_feature.ts";
import { Writer } from "../byte_writer.ts";

/** Flags of a netlink message header (include/uapi/linux/netlink.h). */
export const MessageFlag = {
  REQUEST: 0x1,
  MULTI: 0x2,
  ACK: 0x4,
  DUMP_INTR: 0x10,
  REPLACE: 0x100,
  EXCL: 0x200,
  CREATE: 0x400,
  APPEND: 0x800,
  DUMP: 0x300,
} as const;

/** The message types that every netlink family shares. */
export const ControlType = { NOOP: 1, ERROR: 2, DONE: 3, OVERRUN: 4 } as const;

const HEADER_SIZE = 16;

/** NLA_F_NESTED */
export const NESTED = 0x8000;
/** The largest attribute, header included, that the 16-bit length field can describe. */
const MAX_LENGTH = 0xffff;

/**
 * A C struct without implicit padding: its fields in order with their widths; `be16` and `be32` are in network order.
 */
export type StructLayout = Readonly<Record<string, "u8" | "u16" | "u32" | "i32" | "be16" | "be32">>;

/** The values of a struct's fields. */
export type StructValues<L extends StructLayout> = { readonly [K in keyof L]: number };

/** The body of a family's messages: a fixed struct, then attributes. */
export interface BodyLayout<S extends StructLayout = StructLayout, A extends AttributeTable = AttributeTable> {
  readonly struct: S;
  readonly attributes: A;
}

/** A request as a value: the data to send, and enough to explain the kernel's refusal. */
export interface Request {
  /** The action of this request in words, for errors ("create veth dbv0a1b with peer eth0"). */
  readonly operation: string;
  readonly type: number;
  readonly flags: number;
  readonly body: Uint8Array;
  readonly layout: BodyLayout;
  /** Whether success has an answer of its own, as for a GET, so that no acknowledgement is needed. */
  readonly isAnswered?: boolean;
  /** The feature of the kernel whose absence an answer may mean (error.ts). */
  readonly needs?: FeatureName | undefined;
  /** Names the part at an offset of the body that the layout does not name: one of many elements. */
  readonly nameAt?: (offset: number) => string | undefined;
}

/** A received message. */
export interface ReceivedMessage {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  readonly body: Uint8Array;
}

/**
 * Builds a request; `flags` are added to REQUEST.
 *
 * @param operation a function where the words have addresses in them, as hardly any request is refused
 */
export function request<S extends StructLayout, A extends AttributeTable>(
  operation: string | (() => string),
  kind: {
    readonly type: number;
    readonly flags: number;
    readonly layout: BodyLayout<S, A>;
    readonly isAnswered?: boolean;
    readonly needs?: FeatureName | undefined;
  },
  header: Partial<StructValues<S>>,
  attributes: AttributeInput<A>,
): Request {
  const writer = new Writer(256);
  encodeStruct(writer, kind.layout.struct, header);
  writer.align();
  encodeAttributes(writer, kind.layout.attributes, attributes);
  return {
    get operation() {
      return typeof operation === "string" ? operation : operation();
    },
    type: kind.type,
    flags: MessageFlag.REQUEST | kind.flags,
    body: writer.view(),
    layout: kind.layout,
    isAnswered: kind.isAnswered === true,
    needs: kind.needs,
  };
}

const widths = { u8: 1, u16: 2, u32: 4, i32: 4, be16: 2, be32: 4 } as const;

const sizes = new WeakMap<StructLayout, number>();

/** Returns the size of the struct in bytes. */
export function structSize(layout: StructLayout): number {
  let size = sizes.get(layout);
  if (size !== undefined) return size;
  size = 0;
  for (const field in layout) size += widths[layout[field] ?? "u8"];
  sizes.set(layout, size);
  return size;
}

/** Appends a struct; fields omitted are zero. */
export function encodeStruct<L extends StructLayout>(
  writer: Writer,
  layout: L,
  values: Partial<StructValues<L>>,
): void {
  for (const field in layout) writer[layout[field] ?? "u8"](values[field] ?? 0);
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

/** Appends one attribute. @throws as {@link encodeAttributes} */
export function encodeAttribute<T>(writer: Writer, number: number, type: AttributeType<T>, value: T): void {
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

/** Appends a request with its header. */
export function encodeRequest(writer: Writer, message: Request, flags: number, sequence: number): void {
  // The port id stays 0: the kernel knows the sender.
  const header = writer.zeros(HEADER_SIZE);
  header.setUint32(0, HEADER_SIZE + message.body.length, littleEndian);
  header.setUint16(4, message.type, littleEndian);
  header.setUint16(6, message.flags | flags, littleEndian);
  header.setUint32(8, sequence, littleEndian);
  writer.bytes(message.body);
  writer.align();
}

/**
 * Splits a datagram into its messages.
 *
 * Every step advances by at least a header, so a hostile length cannot cause an endless loop.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when a message does not fit the datagram
 */
export function decodeMessages(datagram: Uint8Array): readonly ReceivedMessage[] {
  const messages: ReceivedMessage[] = [];
  const view = new DataView(datagram.buffer, datagram.byteOffset, datagram.byteLength);
  let offset = 0;
  while (offset < datagram.length) {
    const left = datagram.length - offset;
    const length = left < HEADER_SIZE ? 0 : view.getUint32(offset, littleEndian);
    if (length < HEADER_SIZE || length > left) {
      throw new DrawbridgeError("ERR_NETLINK_MALFORMED", `netlink message: length ${length} with ${left} bytes left`);
    }
    messages.push({
      type: view.getUint16(offset + 4, littleEndian),
      flags: view.getUint16(offset + 6, littleEndian),
      sequence: view.getUint32(offset + 8, littleEndian),
      body: datagram.subarray(offset + HEADER_SIZE, offset + length),
    });
    offset += (length + 3) & ~3;
  }
  return messages;
}

/**
 * Returns the struct and the attributes of a message body.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when they do not fit the layout
 */
export function decodeBody<S extends StructLayout, A extends AttributeTable>(
  layout: BodyLayout<S, A>,
  body: Uint8Array,
): { readonly header: StructValues<S>; readonly attributes: AttributeValues<A> } {
  const header = decodeStruct(layout.struct, body);
  return { header, attributes: decodeAttributes(layout.attributes, body.subarray(attributesOffset(layout))) };
}

/** Returns the name of the request's attribute at an offset from the message's start, as extended ACKs count it. */
export function requestAttributeAt(message: Request, offset: number): string | undefined {
  const name = message.nameAt?.(offset - HEADER_SIZE);
  if (name !== undefined) return name;
  const start = attributesOffset(message.layout);
  return attributeNameAt(message.layout.attributes, message.body.subarray(start), offset - HEADER_SIZE - start);
}

function attributesOffset(layout: BodyLayout): number {
  return (structSize(layout.struct) + 3) & ~3;
}

/**
 * Reads a struct from the start of a buffer.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when the buffer is shorter than the struct
 */
export function decodeStruct<L extends StructLayout>(layout: L, buffer: Uint8Array): StructValues<L> {
  const size = structSize(layout);
  if (buffer.length < size) {
    throw new DrawbridgeError("ERR_NETLINK_MALFORMED", `netlink struct: ${buffer.length} bytes; expected ${size}`);
  }
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  const values: Record<string, number> = {};
  let offset = 0;
  for (const field in layout) {
    const width = layout[field] ?? "u8";
    if (width === "u8") values[field] = view.getUint8(offset);
    else if (width === "u16") values[field] = view.getUint16(offset, littleEndian);
    else if (width === "u32") values[field] = view.getUint32(offset, littleEndian);
    else if (width === "be16") values[field] = view.getUint16(offset);
    else if (width === "be32") values[field] = view.getUint32(offset);
    else values[field] = view.getInt32(offset, littleEndian);
    offset += widths[width];
  }
  return values as StructValues<L>;
}
