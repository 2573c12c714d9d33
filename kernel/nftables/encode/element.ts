import { encodeAttributes, endAttribute, NESTED } from "../../netlink/message.ts";
import type { Writer } from "../../byte_writer.ts";
import { type DataType, dataTypes, type Scalar } from "../model/data_type.ts";
import type { Interval, KeyField } from "../model/expression.ts";
import { checkTimeout } from "../model/identifier.ts";
import { dataAttributes } from "./instruction.ts";
import { valueBytes, writeValue } from "./register.ts";
import { elementAttributes } from "./message.ts";
import type { Element, KeyPart, SetDefinition } from "../model/object.ts";
import { verdictData } from "./lowering.ts";
import type { Verdict } from "../model/statement.ts";
import { writeComment } from "./userdata.ts";
import { interfaceName, presentInterfaceName } from "../model/value_codec.ts";

/** NFT_SET_ELEM_* of an element without a key of its own, and of the first value after a range. */
export const CATCH_ALL = 2;
export const INTERVAL_END = 1;
/** NFTA_LIST_ELEM */
const ITEM = 1 | NESTED;
const KEY = elementAttributes.key[0] | NESTED;
const KEY_END = elementAttributes.keyEnd[0] | NESTED;
const DATA = elementAttributes.data[0] | NESTED;
const USERDATA = elementAttributes.userdata[0];
const VALUE = dataAttributes.value[0];

export function keyTypes(key: readonly KeyPart[]): readonly DataType[] {
  return key.map((part) => (typeof part === "string" ? dataTypes[part] : dataTypes.integer));
}

/** Returns the data types of a map's data; none for a set or a verdict map. */
export function valueTypes(definition: SetDefinition): readonly DataType[] {
  return typeof definition.data === "object" ? definition.data.map((name) => dataTypes[name]) : [];
}

/** The part of a set's definition that is needed to encode elements, looked up once. */
export interface ElementCode {
  readonly key: readonly DataType[];
  /** Undefined for a set. */
  readonly data: readonly DataType[] | "verdict" | undefined;
  readonly isInterval: boolean;
}

/** Looks up the part of a definition. */
export function elementCode(definition: SetDefinition): ElementCode {
  return {
    key: keyTypes(definition.key),
    data: definition.data === "verdict" ? "verdict" : definition.data && valueTypes(definition),
    isInterval: definition.isInterval === true,
  };
}

/** Returns a code for elements as another program may have written them, so that they can be named for deletion. */
export function presentCode(code: ElementCode): ElementCode {
  if (!code.key.includes(interfaceName)) return code;
  return { ...code, key: code.key.map((type) => (type === interfaceName ? presentInterfaceName : type)) };
}

/**
 * Appends one element as the kernel expects it: two entries for an interval of a single field, otherwise one.
 *
 * Tens of thousands of elements pass here at once, so it writes the attributes without a value in between.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when the element does not fit the set
 */
export function writeElement(writer: Writer, code: ElementCode, element: Element): void {
  const isWithoutKey = isCatchAll(element);
  if (code.isInterval && !isWithoutKey) return writeInterval(writer, code, element);
  const item = writer.beginAttribute(ITEM);
  if (isWithoutKey) encodeAttributes(writer, elementAttributes, { flags: CATCH_ALL });
  else writeKey(writer, KEY, code, element.key);
  writeRest(writer, code, element);
  endAttribute(writer, item);
}

function writeInterval(writer: Writer, code: ElementCode, element: Element): void {
  const item = writer.beginAttribute(ITEM);
  const { first, last } = bounds(element.key);
  const end = valueBytes(code.key, last);
  writeKey(writer, KEY, code, first);
  if (code.key.length > 1) writeKey(writer, KEY_END, code, last);
  writeRest(writer, code, element);
  endAttribute(writer, item);
  if (code.key.length > 1) return;
  // The end is the first value after the interval. Nothing follows the largest value, so that interval stays open.
  const behind = successor(end);
  if (behind === undefined) return;
  const endItem = writer.beginAttribute(ITEM);
  encodeAttributes(writer, elementAttributes, { key: { value: behind }, flags: INTERVAL_END });
  endAttribute(writer, endItem);
}

/** Returns the next byte string of the same length; undefined after the last. */
function successor(bytes: Uint8Array): Uint8Array | undefined {
  const next = bytes.slice();
  for (let i = next.length - 1; i >= 0; i--) {
    next[i] = ((next[i] ?? 0) + 1) & 0xff;
    if (next[i] !== 0) return next;
  }
  return undefined;
}

/** Tells whether an element is the catch-all, which matches whatever no other element of its set matches. */
export function isCatchAll({ key }: Element): boolean {
  return key.length === 0;
}

function writeKey(writer: Writer, number: number, code: ElementCode, key: readonly KeyField[]): void {
  const attribute = writer.beginAttribute(number);
  const value = writer.beginAttribute(VALUE);
  writeValue(writer, code.key, key);
  endAttribute(writer, value);
  endAttribute(writer, attribute);
}

function writeRest(writer: Writer, code: ElementCode, { data, timeout, comment }: Element): void {
  if (data !== undefined) writeData(writer, code, data);
  if (timeout !== undefined) encodeAttributes(writer, elementAttributes, { timeout: checkTimeout(timeout) });
  if (comment === undefined) return;
  const userdata = writer.beginAttribute(USERDATA);
  writeComment(writer, comment);
  endAttribute(writer, userdata);
}

function writeData(writer: Writer, code: ElementCode, data: readonly Scalar[] | Verdict): void {
  const attribute = writer.beginAttribute(DATA);
  if ("kind" in data) {
    encodeAttributes(writer, dataAttributes, verdictData(data));
  } else {
    const value = writer.beginAttribute(VALUE);
    writeValue(writer, typeof code.data === "object" ? code.data : [], data);
    endAttribute(writer, value);
  }
  endAttribute(writer, attribute);
}

function bounds(key: readonly KeyField[]): { readonly first: readonly Scalar[]; readonly last: readonly Scalar[] } {
  return {
    first: key.map((field) => (typeof field === "object" ? field.first : field)),
    last: key.map((field) => (typeof field === "object" ? field.last : field)),
  };
}

/** Separates the fields of {@link keyText}. */
export const FIELD_SEPARATOR = "|";

/** Returns the key as a text that is equal for equal keys, for maps by key. */
export function keyText(key: readonly KeyField[]): string {
  // A key without ranges is joined directly, for tens of thousands of them, and in one piece, for as many are retained.
  return areSingle(key) ? key.join(FIELD_SEPARATOR) : key.map(fieldText).join(FIELD_SEPARATOR);
}

function areSingle(key: readonly KeyField[]): key is readonly Scalar[] {
  for (const field of key) if (typeof field === "object") return false;
  return true;
}

function fieldText(field: KeyField): string {
  return typeof field === "object" ? intervalText(field) : String(field);
}

function intervalText({ first, last }: Interval): string {
  return first === last ? String(first) : `${first}-${last}`;
}
