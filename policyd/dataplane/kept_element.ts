import type { Scalar } from "../../kernel/nftables/data_type.ts";
import { FIELD_SEPARATOR } from "../../kernel/nftables/element.ts";
import type { KeyField } from "../../kernel/nftables/expression.ts";
import type { Element } from "../../kernel/nftables/object.ts";
import { isSameElement } from "./claim.ts";

/**
 * An element as it is kept beside the text of its key (`keyText`): tens of thousands are, and lists for keys and data would take
 * three times the memory.
 *
 * As a text it is a letter for each field of the key, which tells integers, big ones and texts apart, and behind them what else
 * the element has: "isi" has no data, "isi|ii|2886729729|53" is of a map, "isi#default/web" has a comment. An element that has
 * no such text, as a range or the catch-all, is kept as it is.
 */
export type KeptElement = string | Element;

/** Also behind the letters of the key. */
const DATA = FIELD_SEPARATOR;
const COMMENT = "#";

/** An element to be kept. */
export function kept(element: Element): KeptElement {
  const { key, data, timeout, comment } = element;
  const keyTypes = typesOf(key);
  if (keyTypes === undefined || keyTypes === "" || timeout !== undefined) return element;
  if (data === undefined) return comment === undefined ? keyTypes : [keyTypes, comment].join(COMMENT);
  if ("kind" in data || comment !== undefined) return element;
  const dataTypes = typesOf(data);
  return dataTypes === undefined ? element : [keyTypes, dataTypes, ...data].join(DATA);
}

/** The element that was kept, by the text of its key. */
export function elementOf(key: string, value: KeptElement): Element {
  if (typeof value !== "string") return value;
  const end = endOfKey(value);
  const fields = valuesOf(value, 0, key.split(DATA));
  if (end === value.length) return { key: fields };
  if (value[end] === COMMENT) return { key: fields, comment: value.slice(end + 1) };
  const [, , ...texts] = value.split(DATA);
  return { key: fields, data: valuesOf(value, end + 1, texts) };
}

/** Whether an element is the same in the kernel as one of its key that was kept ({@link isSameElement}). */
export function isKept(value: KeptElement, element: Element): boolean {
  if (typeof value !== "string") return isSameElement(value, element);
  const { data, comment } = element;
  const end = endOfKey(value);
  if (end === value.length) return data === undefined && comment === undefined;
  if (value[end] === COMMENT) return data === undefined && comment === value.slice(end + 1);
  if (data === undefined || "kind" in data || comment !== undefined) return false;
  return value.slice(end + 1) === [typesOf(data), ...data].join(DATA);
}

/** As {@link isKept}, of two that were kept. */
export function isSameKept(a: KeptElement, b: KeptElement): boolean {
  // Mostly they are the same. A range of one value, which has no text, is the same as the value.
  return a === b || isKept(a, elementOf("", b));
}

/** A letter for each value; undefined where their texts would not tell what they are. */
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

/** One text for all that are equal: there are as many as sets have shapes. */
function shared(types: string): string {
  const text = known.get(types);
  if (text !== undefined) return text;
  known.set(types, types);
  return types;
}

/** Where what is behind the letters of the key begins. */
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
