import { DrawbridgeError } from "../error.ts";
import type { AttributeValues } from "../netlink/attribute.ts";
import { decodeAttributes, eachAttribute } from "../netlink/attribute.ts";
import { NetlinkError } from "../netlink/error.ts";
import type { Request } from "../netlink/message.ts";
import { decodeBody } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { Errno } from "../syscall/errno.ts";
import type { DataType, Scalar } from "./data_type.ts";
import { paddedSize } from "./data_type.ts";
import type { ElementCode } from "./element.ts";
import { CATCH_ALL, elementCode, INTERVAL_END, keyText } from "./element.ts";
import { compareBytes, predecessor } from "./element_bytes.ts";
import { ElementDecoder, elementWith, rangesOf } from "./element_decoder.ts";
import { elementAttributes, elementLayout, Message, nftablesRequest } from "./message.ts";
import type { Element, SetDefinition, TableReference } from "./object.ts";
import { verdictOf } from "./rule_code.ts";
import { commentOf } from "./userdata.ts";

/** An element as the kernel tells it. */
export type RawElement = AttributeValues<typeof elementAttributes>;

/** How often a list of elements that was told twice in part is read again. */
const ATTEMPTS = 20;

/**
 * The elements of one set, ranges put together again.
 *
 * @throws NetlinkError ENOENT when there is no such set; EINTR when its list cannot be had in one piece
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
 * As {@link readElements}, but in the pieces in which the kernel tells them, which is where other things can be done. Nothing
 * else may use the socket before the end; a list that is given up (by its `return`) is heard to its end.
 *
 * The kernel goes on behind as many elements as it has told. An element of this set that is deleted between two pieces
 * hides another, one that is added shows another twice, and so does a hash table that it is resizing. Commits to other sets
 * do nothing to the list.
 *
 * @throws NetlinkError ENOENT when there is no such set, or none any more
 */
export function* elementPieces(
  socket: NetlinkSocket,
  reference: TableReference,
  definition: SetDefinition,
): Generator<readonly Element[], void, void> {
  const code = elementCode(definition);
  // The end of a range is the entry behind it, wherever that one is told.
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
 * Reads a list to its end, without which the socket lists nothing else. Whoever gives it up does so for a reason of his own,
 * as after a failure, and is not to fail by it.
 */
function hearOut(list: Generator<unknown, unknown, void>): void {
  try {
    while (list.next().done !== true);
  } catch (error) {
    // The set is gone, and with it the list; or the kernel has no memory for the rest, which the next list says.
    if (!(error instanceof DrawbridgeError)) throw error;
  }
}

function listRequest({ family, name: table }: TableReference, { name }: SetDefinition): Request {
  const kind = { message: Message.GET_ELEMENTS, family, layout: elementLayout };
  return nftablesRequest(`list elements of ${family} ${table} ${name}`, kind, { table, set: name });
}

/** Whether an element is two entries: ranges of a single field. */
function isPaired({ isInterval, key }: ElementCode): boolean {
  return isInterval && key.length === 1;
}

/**
 * Undefined when an element was told twice. A hash table that the kernel is resizing in the background, as it does for a
 * while after many elements have come or gone, is in another order in each message of the list (nft_rhash_walk skips
 * as many as it has told): as many elements are missing then as were told twice, and no flag says so.
 */
function elementsIn(socket: NetlinkSocket, request: Request, code: ElementCode): readonly Element[] | undefined {
  const decoder = new ElementDecoder(code);
  const found: Element[] = [];
  for (const { body } of socket.dump(request)) for (const element of decoder.decode(body)) found.push(element);
  const told = new Set(found.map(({ key }) => keyText(key)));
  return told.size === found.length ? found : undefined;
}

/** As {@link elementsIn}, for ranges of a single field. */
function rangesIn(socket: NetlinkSocket, request: Request, code: ElementCode): readonly Element[] | undefined {
  const raw: RawElement[] = [];
  for (const { body } of socket.dump(request)) {
    const { elements } = decodeBody(elementLayout, body).attributes;
    if (elements === undefined) continue;
    for (const [, payload] of eachAttribute(elements)) raw.push(decodeAttributes(elementAttributes, payload));
  }
  const told = new Set(raw.map((entry) => String.fromCharCode(entry.flags ?? 0, ...firstOf(entry))));
  return told.size === raw.length ? pairIntervals(code, raw) : undefined;
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
 * Intervals of a single field are two entries: their first value, and the first value behind them. The catch-all, which has
 * neither, is one.
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
 * An element in our words.
 *
 * @param last the end of an interval; the key itself otherwise
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
