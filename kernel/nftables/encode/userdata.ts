import { DrawbridgeError } from "../../error.ts";
import { Writer } from "../../byte_writer.ts";
import { type DataType, type DataTypeName, dataTypes } from "../model/data_type.ts";
import type { NumberGenerator, Selector } from "../model/expression.ts";
import { checkComment } from "../model/identifier.ts";
import type { KeyPart, SetDefinition } from "../model/object.ts";

/** nft's part of an object's user data (libnftnl, include/libnftnl/udata.h), which the kernel stores unread. */
const SetField = { KEY_BYTE_ORDER: 0, DATA_BYTE_ORDER: 1, KEY_TYPEOF: 3, DATA_TYPEOF: 4 } as const;
const COMMENT = 0;
const TYPEOF_EXPRESSION = 0;
const TYPEOF_DATA = 1;
/** enum expr_ops of nft's expression.h. */
const ExpressionKind = { PAYLOAD: 7, META: 9, CONNECTION: 12, CONCATENATION: 13, NUMGEN: 23 } as const;
const NUMGEN_RANDOM = 1;

/** A selector, the kind of its expression, and the numbers by which nft describes it, in order. */
type Exemplar = readonly [Selector, kind: number, ...numbers: readonly number[]];

/**
 * A selector for each type that `typeof` can describe: nft's description of the header or the meta key, and the field's
 * number in it (enum proto_desc_id and *hdr_fields of nft's proto.h). A field without a name has 0 for both, followed
 * by its header's layer (PROTO_BASE_TRANSPORT_HDR), and its position and length in bits.
 */
const exemplars: Partial<Record<DataTypeName, Exemplar>> = {
  ipv4_addr: ["ip daddr", ExpressionKind.PAYLOAD, 12, 12],
  ipv6_addr: ["ip6 daddr", ExpressionKind.PAYLOAD, 13, 9],
  inet_service: ["th dport", ExpressionKind.PAYLOAD, 11, 2],
  inet_proto: ["meta l4proto", ExpressionKind.META, 16],
  mark: ["meta mark", ExpressionKind.META, 3],
  classid: ["meta priority", ExpressionKind.META, 2],
  sixteen_bytes: ["@th,64,128", ExpressionKind.PAYLOAD, 0, 0, 3, 64, 128],
  // No direction, which nft writes as -1.
  ct_id: ["ct id", ExpressionKind.CONNECTION, 23, 0xffff_ffff],
};

const textDecoder = new TextDecoder();

/** Appends type, length and value, which is at most 255 bytes long. */
function field(writer: Writer, type: number, content: Uint8Array): void {
  if (content.length > 255) {
    throw new DrawbridgeError(
      "ERR_NFTABLES_VALUE",
      `nftables user data: ${content.length} bytes; expected at most 255`,
    );
  }
  writer.u8(type);
  writer.u8(content.length);
  writer.bytes(content);
}

function built(write: (writer: Writer) => void): Uint8Array {
  const writer = new Writer(64);
  write(writer);
  return writer.view();
}

function number(writer: Writer, type: number, value: number): void {
  writer.u8(type);
  writer.u8(4);
  writer.u32(value);
}

/** Returns the user data of a table, rule or element with a comment. */
export function commentUserdata(comment: string): Uint8Array {
  return built((writer) => writeComment(writer, comment));
}

/** Appends {@link commentUserdata}. A comment's characters are one byte each, and fewer than 255. */
export function writeComment(writer: Writer, comment: string): void {
  writer.u8(COMMENT);
  writer.u8(checkComment(comment).length + 1);
  writer.text(comment);
  writer.u8(0);
}

/** Returns the comment in the user data of a table, rule or element; undefined without one. */
export function commentOf(userdata: Uint8Array | undefined): string | undefined {
  if (userdata === undefined) return undefined;
  for (let offset = 0; offset + 2 <= userdata.length;) {
    const length = userdata[offset + 1] ?? 0;
    if (userdata[offset] === COMMENT) {
      return textDecoder.decode(userdata.subarray(offset + 2, offset + 2 + length)).replace(/\0.*$/s, "");
    }
    offset += 2 + length;
  }
  return undefined;
}

/** Tells whether only `typeof` can describe a key: nft has no type name for a number, generated or of a flow. */
export function needsTypeof(key: readonly KeyPart[]): boolean {
  return key.some((part) => typeof part !== "string" || part === "ct_id" || part === "sixteen_bytes");
}

/** Returns the selector that describes a type after `typeof`. @throws DrawbridgeError ERR_NFTABLES_VALUE without one */
export function exemplarOf(type: DataTypeName): Selector {
  return exemplarEntry(type)[0];
}

function exemplarEntry(type: DataTypeName): Exemplar {
  const entry = exemplars[type];
  if (entry !== undefined) return entry;
  const known = Object.keys(exemplars).join(", ");
  throw new DrawbridgeError("ERR_NFTABLES_VALUE", `nftables set: ${type} beside a number; expected one of ${known}`);
}

/**
 * Returns the user data of a set: what nft needs to list keys without a type number of their own.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE for a key that cannot be described
 */
export function setUserdata({ key, data }: SetDefinition): Uint8Array {
  return built((writer) => {
    number(writer, SetField.KEY_BYTE_ORDER, byteOrderOf(key));
    if (typeof data === "object") number(writer, SetField.DATA_BYTE_ORDER, byteOrderOf(data));
    if (needsTypeof(key)) {
      field(writer, SetField.KEY_TYPEOF, typeofConcatenation(key));
      if (typeof data === "object") field(writer, SetField.DATA_TYPEOF, typeofConcatenation(data));
    }
  });
}

/** Returns the user data of the set of a single rule. */
export function anonymousUserdata(types: readonly DataType[]): Uint8Array {
  return built((writer) => number(writer, SetField.KEY_BYTE_ORDER, byteOrder(types)));
}

function byteOrderOf(parts: readonly KeyPart[]): number {
  return byteOrder(parts.map((part) => (typeof part === "string" ? dataTypes[part] : dataTypes.integer)));
}

/** Returns nft's BYTEORDER_*: none for a concatenation. */
function byteOrder([only, ...others]: readonly DataType[]): number {
  return only === undefined || others.length > 0 ? 0 : only.byteOrder;
}

function typeofConcatenation(parts: readonly KeyPart[]): Uint8Array {
  const [only, ...others] = parts;
  if (only !== undefined && others.length === 0) return typeofPart(only);
  const content = built((writer) => {
    for (const [index, part] of parts.entries()) field(writer, index, typeofPart(part));
  });
  return typeofExpression(ExpressionKind.CONCATENATION, content);
}

function typeofPart(part: KeyPart): Uint8Array {
  if (typeof part !== "string") return typeofExpression(ExpressionKind.NUMGEN, typeofNumber(part));
  const [, kind, ...numbers] = exemplarEntry(part);
  const content = built((writer) => {
    for (const [index, value] of numbers.entries()) number(writer, index, value);
  });
  return typeofExpression(kind, content);
}

function typeofNumber(generator: NumberGenerator): Uint8Array {
  return built((writer) => {
    number(writer, 0, NUMGEN_RANDOM);
    number(writer, 1, generator.modulus);
    number(writer, 2, 0);
  });
}

function typeofExpression(kind: number, content: Uint8Array): Uint8Array {
  return built((writer) => {
    number(writer, TYPEOF_EXPRESSION, kind);
    field(writer, TYPEOF_DATA, content);
  });
}
