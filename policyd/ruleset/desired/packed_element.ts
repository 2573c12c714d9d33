import type { Scalar } from "../../../kernel/nftables/model/data_type.ts";
import { FIELD_SEPARATOR } from "../../../kernel/nftables/encode/element.ts";
import type { KeyField } from "../../../kernel/nftables/model/expression.ts";
import type { Element } from "../../../kernel/nftables/model/object.ts";
import { isSameElement } from "./desired_element.ts";

/**
 * The compact form of an element that is stored beside the text of its key (`keyText`). There are tens of thousands,
 * and lists for keys and data would take three times the memory.
 *
 * As a string it has a letter for each field of the key, which distinguishes integers, big integers and strings,
 * followed by whatever else the element has: "isi" has no data, "isi|ii|2886729729|53" is of a map, "isi#default/web"
 * has a comment. An element without such a string form, such as a range or the catch-all, is stored unchanged.
 */
export type PackedElement = string | Element;

/** Also ends the letters of the key. */
const DATA = FIELD_SEPARATOR;
const COMMENT = "#";

/** Returns the form in which an element is stored. */
export function packElement(element: Element): PackedElement {
  const { key, data, timeout, comment } = element;
  const keyTypes = typesOf(key);
  if (keyTypes === undefined || keyTypes === "" || timeout !== undefined) return element;
  if (data === undefined) return comment === undefined ? keyTypes : [keyTypes, comment].join(COMMENT);
  if ("kind" in data || comment !== undefined) return element;
  const dataTypes = typesOf(data);
  return dataTypes === undefined ? element : [keyTypes, dataTypes, ...data].join(DATA);
}

/** Returns the stored element, given the text of its key. */
export function elementOf(key: string, value: PackedElement): Element {
  if (typeof value !== "string") return value;
  const end = endOfKey(value);
  const fields = valuesOf(value, 0, key.split(DATA));
  if (end === value.length) return { key: fields };
  if (value[end] === COMMENT) return { key: fields, comment: value.slice(end + 1) };
  const [, , ...texts] = value.split(DATA);
  return { key: fields, data: valuesOf(value, end + 1, texts) };
}

/** Whether an element is the same in the kernel as a stored one with the same key ({@link isSameElement}). */
export function isPacked(value: PackedElement, element: Element): boolean {
  if (typeof value !== "string") return isSameElement(value, element);
  const { data, comment } = element;
  const end = endOfKey(value);
  if (end === value.length) return data === undefined && comment === undefined;
  if (value[end] === COMMENT) return data === undefined && comment === value.slice(end + 1);
  if (data === undefined || "kind" in data || comment !== undefined) return false;
  return value.slice(end + 1) === [typesOf(data), ...data].join(DATA);
}

/** Like {@link isPacked}, for two stored elements. */
export function isSamePacked(a: PackedElement, b: PackedElement): boolean {
  // Mostly the strings are equal. A range of one value has no string form, but is the same as the value.
  return a === b || isPacked(a, elementOf("", b));
}

/** Returns a letter for each value; undefined when the string form would not show what the values are. */
function typesOf(values: readonly KeyField[]): string | undefined {
  let types = "";
  for (const value of values) {
    if (typeof value === "number") types += "i";
    else if (typeof value === "bigint") types += "b";
    else if (typeof value === "string" && !value.includes(DATA)) types += "s";
    else return undefined;
  }
  return shared(types);
}

const known = new Map<string, string>();

/** Returns the same string object for equal strings; there are as many as sets have shapes. */
function shared(types: string): string {
  const text = known.get(types);
  if (text !== undefined) return text;
  known.set(types, types);
  return types;
}

/** Returns the index after the letters of the key. */
function endOfKey(text: string): number {
  for (let end = 0; end < text.length; end++) if (text[end] === DATA || text[end] === COMMENT) return end;
  return text.length;
}

function valuesOf(types: string, first: number, texts: readonly string[]): readonly Scalar[] {
  return texts.map((text, index) => {
    const type = types[first + index];
    return type === "s" ? text : type === "b" ? BigInt(text) : Number(text);
  });
}
