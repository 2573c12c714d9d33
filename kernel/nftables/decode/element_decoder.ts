import { DrawbridgeError } from "../../error.ts";
import { netfilterHeader } from "../../netlink/netfilter_message.ts";
import { be32, be64 } from "../../netlink/attribute.ts";
import { AttributeCursor, decodeAttributes } from "../../netlink/attribute_decoder.ts";
import { structSize } from "../../netlink/message.ts";
import { type DataType, paddedSize, type Scalar } from "../model/data_type.ts";
import { CATCH_ALL, type ElementCode } from "../encode/element.ts";
import type { KeyField } from "../model/expression.ts";
import { dataAttributes, verdictAttributes } from "../encode/instruction.ts";
import { elementAttributes, elementListAttributes } from "../encode/message.ts";
import type { Element } from "../model/object.ts";
import { verdictOf } from "../encode/lowering.ts";
import { commentOf } from "../encode/userdata.ts";

const HEADER_BYTES = structSize(netfilterHeader);
const ELEMENTS = elementListAttributes.elements[0];
const KEY = elementAttributes.key[0];
const KEY_END = elementAttributes.keyEnd[0];
const DATA = elementAttributes.data[0];
const FLAGS = elementAttributes.flags[0];
const TIMEOUT = elementAttributes.timeout[0];
const EXPIRATION = elementAttributes.expiration[0];
const USERDATA = elementAttributes.userdata[0];
const INSTRUCTION = elementAttributes.instruction[0];
const VALUE = dataAttributes.value[0];
const VERDICT = dataAttributes.verdict[0];

/** One of the values of a key or of data. */
interface Field {
  readonly type: DataType;
  /** The buffer that its bytes are decoded from: a view of the message for each value would take most of the time. */
  readonly bytes: Uint8Array;
  /** The distance from its start to that of the next field. */
  readonly step: number;
}

/**
 * Takes an entry of a list.
 *
 * @param flags NFT_SET_ELEM_*
 * @param instruction the attributes of an instruction that the element has, such as a counter
 */
export type SeeEntry = (element: Element, flags: number, instruction: Uint8Array | undefined) => void;

/**
 * Decodes elements from the kernel's messages. A range of a single field is two entries, which the caller joins.
 *
 * Tens of thousands are read at once while pods and Services wait, so it makes no values for skipped parts.
 */
export class ElementDecoder {
  readonly #code: ElementCode;
  readonly #key: readonly Field[];
  readonly #data: readonly Field[];

  constructor(code: ElementCode) {
    this.#code = code;
    this.#key = code.key.map(fieldOf);
    this.#data = typeof code.data === "object" ? code.data.map(fieldOf) : [];
  }

  /**
   * Returns the elements of one message (NFT_MSG_NEWSETELEM).
   *
   * @param body is not retained
   * @throws DrawbridgeError ERR_NETLINK_MALFORMED for an element that does not fit this set
   */
  decode(body: Uint8Array): readonly Element[] {
    const found: Element[] = [];
    this.visit(body, (element) => found.push(element));
    return found;
  }

  /** Visits the entries of one message as {@link decode} does. */
  visit(body: Uint8Array, see: SeeEntry): void {
    const [message, list, item, nest] = [cursorOf(body), cursorOf(body), cursorOf(body), cursorOf(body)];
    message.enter(Math.min(HEADER_BYTES, body.length), body.length);
    while (message.next()) {
      if (message.number !== ELEMENTS) continue;
      list.enter(message.start, message.end);
      while (list.next()) this.#entry(body, item.enter(list.start, list.end), nest, see);
    }
  }

  #entry(body: Uint8Array, item: AttributeCursor, nest: AttributeCursor, see: SeeEntry): void {
    let first: readonly Scalar[] | undefined;
    let last: readonly Scalar[] | undefined;
    let data: Element["data"];
    let timeout: number | undefined;
    let expiration: number | undefined;
    let comment: string | undefined;
    let flags = 0;
    let instruction: Uint8Array | undefined;
    while (item.next()) {
      switch (item.number) {
        case KEY:
          first = valuesIn(nest, item, body, this.#key);
          break;
        case KEY_END:
          last = valuesIn(nest, item, body, this.#key);
          break;
        case DATA:
          data = this.#dataIn(nest, item, body);
          break;
        case FLAGS:
          flags = be32.decode(body.subarray(item.start, item.end));
          break;
        case TIMEOUT:
          timeout = Number(be64.decode(body.subarray(item.start, item.end)));
          break;
        case EXPIRATION:
          expiration = Number(be64.decode(body.subarray(item.start, item.end)));
          break;
        case USERDATA:
          comment = commentOf(body.subarray(item.start, item.end));
          break;
        case INSTRUCTION:
          instruction = body.subarray(item.start, item.end);
      }
    }
    // A catch-all has flags instead of a key.
    if ((flags & CATCH_ALL) !== 0) first = [];
    if (first === undefined) throw malformed("without a key");
    const key = this.#code.isInterval && last !== undefined ? rangesOf(first, last) : first;
    const element = elementWith(key, data, timeout, comment);
    see(expiration === undefined ? element : { ...element, expiration }, flags, instruction);
  }

  #dataIn(nest: AttributeCursor, item: AttributeCursor, body: Uint8Array): Element["data"] {
    if (this.#code.data !== "verdict") {
      return this.#data.length === 0 ? undefined : valuesIn(nest, item, body, this.#data);
    }
    nest.enter(item.start, item.end);
    while (nest.next()) {
      if (nest.number !== VERDICT) continue;
      const { code, chain } = decodeAttributes(verdictAttributes, body.subarray(nest.start, nest.end));
      return code === undefined ? undefined : verdictOf(code, chain);
    }
    return undefined;
  }
}

/** Returns an element with the given parts. */
function elementWith(
  key: Element["key"],
  data: Element["data"],
  timeout: number | undefined,
  comment: string | undefined,
): Element {
  const element = data === undefined ? { key } : { key, data };
  if (timeout === undefined && comment === undefined) return element;
  return {
    ...element,
    ...(timeout === undefined ? {} : { timeout }),
    ...(comment === undefined ? {} : { comment }),
  };
}

function cursorOf(body: Uint8Array): AttributeCursor {
  return new AttributeCursor(body);
}

function fieldOf(type: DataType): Field {
  return { type, bytes: new Uint8Array(type.size), step: paddedSize(type) };
}

/** Returns the values in NFTA_DATA_VALUE of an attribute; undefined without it. */
function valuesIn(
  nest: AttributeCursor,
  { start, end }: AttributeCursor,
  body: Uint8Array,
  fields: readonly Field[],
): readonly Scalar[] | undefined {
  nest.enter(start, end);
  while (nest.next()) if (nest.number === VALUE) return valuesAt(body, nest.start, nest.end, fields);
  return undefined;
}

function valuesAt(body: Uint8Array, start: number, end: number, fields: readonly Field[]): readonly Scalar[] {
  const values: Scalar[] = [];
  let offset = start;
  for (const { type, bytes, step } of fields) {
    if (offset + bytes.length > end) throw malformed(`with ${end - start} bytes of values`);
    for (let i = 0; i < bytes.length; i++) bytes[i] = body[offset + i] ?? 0;
    values.push(type.decode(bytes));
    offset += step;
  }
  return values;
}

/** Returns a key with a range in each field whose first and last value differ. */
export function rangesOf(first: readonly Scalar[], last: readonly Scalar[]): readonly KeyField[] {
  return first.map((value, index): KeyField => {
    const end = last[index] ?? value;
    return value === end ? value : { first: value, last: end };
  });
}

function malformed(what: string): DrawbridgeError {
  return new DrawbridgeError(
    "ERR_NETLINK_MALFORMED",
    `nftables element: ${what}; expected one of the set's definition`,
  );
}
