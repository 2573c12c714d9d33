import { DrawbridgeError } from "../../error.ts";
import { type AttributeValues, decodeAttributes, eachAttribute } from "../../netlink/attribute.ts";
import { NetlinkError } from "../../netlink/error.ts";
import { decodeBody, type Request } from "../../netlink/message.ts";
import type { NetlinkSocket } from "../../netlink/socket.ts";
import { Errno } from "../../syscall/errno.ts";
import { type DataType, paddedSize, type Scalar } from "../model/data_type.ts";
import { CATCH_ALL, type ElementCode, elementCode, INTERVAL_END, keyText } from "../encode/element.ts";
import { compareBytes, predecessor } from "../encode/element_bytes.ts";
import { ElementDecoder, elementWith, rangesOf } from "./element_decoder.ts";
import { elementAttributes, elementLayout, Message, nftablesRequest } from "../encode/message.ts";
import type { Element, SetDefinition, TableReference } from "../model/object.ts";
import { verdictOf } from "../encode/lowering.ts";
import { commentOf } from "../encode/userdata.ts";

/** An element as the kernel reports it. */
export type RawElement = AttributeValues<typeof elementAttributes>;

/** The number of attempts to read a list before repeated entries count as a failure. */
const ATTEMPTS = 20;

/**
 * Returns the elements of one set, with ranges reassembled.
 *
 * @throws NetlinkError ENOENT when there is no such set; EINTR when every attempt at a consistent list failed
 */
export function readElements(
  socket: NetlinkSocket,
  reference: TableReference,
  definition: SetDefinition,
): readonly Element[] {
  const request = listRequest(reference, definition);
  const code = elementCode(definition);
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const found = isPaired(code) ? rangesIn(socket, request, code) : elementsIn(socket, request, code);
    if (found !== undefined) return found;
  }
  const reason = `the set grew or shrank during each of ${ATTEMPTS} lists`;
  throw new NetlinkError(request.operation, Errno.EINTR, reason);
}

/**
 * Yields elements like {@link readElements}, but in the pieces that the kernel sends, between which other work can be
 * done. Nothing else may use the socket before the end. An abandoned list (by its `return`) is read to its end.
 *
 * The kernel continues after the number of elements that it has sent. An element of this set that is deleted between
 * two pieces hides another; one that is added repeats another, as does a hash table that is being resized. Commits to
 * other sets do not affect the list.
 *
 * @throws NetlinkError ENOENT when there is no such set, or when it was deleted meanwhile
 */
export function* elementPieces(
  socket: NetlinkSocket,
  reference: TableReference,
  definition: SetDefinition,
): Generator<readonly Element[], void, void> {
  const code = elementCode(definition);
  // The end of a range is the entry that follows it in order, which may come in any piece.
  if (isPaired(code)) return yield readElements(socket, reference, definition);
  const decoder = new ElementDecoder(code);
  const list = socket.datagrams(listRequest(reference, definition));
  try {
    for (let step = list.next(); step.done !== true; step = list.next()) {
      yield step.value.flatMap(({ body }) => decoder.decode(body));
    }
  } finally {
    hearOut(list);
  }
}

/**
 * Reads an abandoned list to its end, without which the socket could list nothing else. Its errors are ignored, because
 * the caller abandons the list for its own reason, such as another failure.
 */
function hearOut(list: Generator<unknown, unknown, void>): void {
  try {
    while (list.next().done !== true);
  } catch (error) {
    // The set has gone, and with it the list; or the kernel lacks memory for the rest, as the next list will report.
    if (!(error instanceof DrawbridgeError)) throw error;
  }
}

function listRequest({ family, name: table }: TableReference, { name }: SetDefinition): Request {
  const kind = { message: Message.GET_ELEMENTS, family, layout: elementLayout };
  return nftablesRequest(`list elements of ${family} ${table} ${name}`, kind, { table, set: name });
}

/** Tells whether an element is two entries: in sets with ranges of a single field. */
function isPaired({ isInterval, key }: ElementCode): boolean {
  return isInterval && key.length === 1;
}

/**
 * Returns undefined when an element is listed twice. While the kernel resizes a hash table in the background, for some
 * time after many elements came or went, each message of the list has another order (nft_rhash_walk skips the number
 * already sent). Then as many elements are missing as are repeated, and no flag says so.
 */
function elementsIn(socket: NetlinkSocket, request: Request, code: ElementCode): readonly Element[] | undefined {
  const decoder = new ElementDecoder(code);
  const found: Element[] = [];
  for (const { body } of socket.dump(request)) for (const element of decoder.decode(body)) found.push(element);
  const distinct = new Set(found.map(({ key }) => keyText(key)));
  return distinct.size === found.length ? found : undefined;
}

/** Does the same as {@link elementsIn} for ranges of a single field. */
function rangesIn(socket: NetlinkSocket, request: Request, code: ElementCode): readonly Element[] | undefined {
  const raw: RawElement[] = [];
  for (const { body } of socket.dump(request)) {
    const { elements } = decodeBody(elementLayout, body).attributes;
    if (elements === undefined) continue;
    for (const [, payload] of eachAttribute(elements)) raw.push(decodeAttributes(elementAttributes, payload));
  }
  const distinct = new Set(raw.map((entry) => String.fromCharCode(entry.flags ?? 0, ...firstOf(entry))));
  return distinct.size === raw.length ? pairIntervals(code, raw) : undefined;
}

function firstOf(element: RawElement): Uint8Array {
  return element.key?.value ?? new Uint8Array();
}

function isCatchAll(element: RawElement): boolean {
  return ((element.flags ?? 0) & CATCH_ALL) !== 0;
}

function isEnd(element: RawElement): boolean {
  return ((element.flags ?? 0) & INTERVAL_END) !== 0;
}

/**
 * Joins the two entries of each interval of a single field: its first value, and the first value after it. The
 * catch-all has neither and is a single entry.
 */
function pairIntervals(code: ElementCode, raw: readonly RawElement[]): readonly Element[] {
  const sorted = raw.toSorted((a, b) => compareBytes(firstOf(a), firstOf(b)) || Number(isEnd(b)) - Number(isEnd(a)));
  const found: Element[] = [];
  for (const [index, element] of sorted.entries()) {
    if (isEnd(element)) continue;
    const next = sorted[index + 1];
    const isOpen = next === undefined || isCatchAll(element);
    const last = isOpen ? firstOf(element).map(() => 0xff) : predecessor(firstOf(next));
    found.push(elementOf(code, element, last));
  }
  return found;
}

/**
 * Returns an element decoded from the kernel's attributes.
 *
 * @param last the last value of an interval; otherwise the key itself
 */
export function elementOf(code: ElementCode, element: RawElement, last: Uint8Array): Element {
  const first = isCatchAll(element) ? [] : fieldsOf(code.key, firstOf(element));
  const isRange = code.isInterval && first.length > 0;
  const key = isRange ? rangesOf(first, fieldsOf(code.key, last)) : first;
  const timeout = element.timeout === undefined ? undefined : Number(element.timeout);
  return elementWith(key, dataOf(code, element), timeout, commentOf(element.userdata));
}

function dataOf(code: ElementCode, { data }: RawElement): Element["data"] {
  if (code.data === "verdict") {
    return data?.verdict?.code === undefined ? undefined : verdictOf(data.verdict.code, data.verdict.chain);
  }
  return code.data === undefined || data?.value === undefined ? undefined : fieldsOf(code.data, data.value);
}

function fieldsOf(types: readonly DataType[], bytes: Uint8Array): readonly Scalar[] {
  let offset = 0;
  return types.map((type) => {
    const value = type.decode(bytes.subarray(offset, offset + type.size));
    offset += paddedSize(type);
    return value;
  });
}
