import { DrawbridgeError } from "../error.ts";
import {
  type AttributeInput,
  attributeNameAt,
  type AttributeTable,
  type AttributeValues,
  decodeAttributes,
  encodeAttributes,
} from "./attribute.ts";
import { decodeStruct, encodeStruct, type StructLayout, structSize, type StructValues } from "./struct.ts";
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
