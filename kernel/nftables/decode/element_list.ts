import { NetlinkError } from "../../netlink/error.ts";
import { messageType, Subsystem } from "../../netlink/netfilter_message.ts";
import type { Request } from "../../netlink/message.ts";
import type { NetlinkSocket } from "../../netlink/socket.ts";
import { Errno } from "../../syscall/errno.ts";
import type { Scalar } from "../model/data_type.ts";
import { type ElementCode, elementCode, INTERVAL_END, keyText } from "../encode/element.ts";
import { ElementDecoder, rangesOf } from "./element_decoder.ts";
import { elementMessages } from "../encode/element_request.ts";
import { elementLayout, Message, nftablesRequest } from "../encode/message.ts";
import type { Element, SetDefinition, TableReference } from "../model/object.ts";

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
 * Returns the elements with these keys, as far as the set has them; none without the set. The kernel looks each of them
 * up, however large the set is.
 *
 * @throws NetlinkError when the kernel refuses
 */
export function readElementsAt(
  socket: NetlinkSocket,
  table: TableReference,
  set: SetDefinition,
  keys: readonly Element["key"][],
): readonly Element[] {
  const code = elementCode(set);
  const decoder = new ElementDecoder(code);
  const kind = messageType(Subsystem.NFTABLES, Message.GET_ELEMENTS);
  const requests = keys.flatMap((key) =>
    elementMessages({ kind: "delete elements", table, set, elements: [{ key }] }, code, undefined),
  );
  // A lookup has the body of a deletion.
  const lookups = requests.map((one) => ({ ...one, operation: `get ${set.name}`, type: kind }));
  return socket.batch(lookups).flatMap(({ error, messages }) => {
    if (error !== undefined && error.errnoName !== "ENOENT") throw error;
    return messages.flatMap(({ body }) => decoder.decode(body));
  });
}

/**
 * Yields elements like {@link readElements}, but in the pieces that the kernel sends, between which other work can be
 * done. Nothing else may use the socket before the end.
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
  for (const messages of socket.datagrams(listRequest(reference, definition))) {
    yield messages.flatMap(({ body }) => decoder.decode(body));
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

/** The first value of a range of a single field, or the first one after it. */
interface Bound {
  readonly value: Scalar;
  readonly isEnd: boolean;
  readonly element: Element;
}

/** Does the same as {@link elementsIn} for ranges of a single field. */
function rangesIn(socket: NetlinkSocket, request: Request, code: ElementCode): readonly Element[] | undefined {
  const decoder = new ElementDecoder(code);
  const bounds: Bound[] = [];
  const catchAlls: Element[] = [];
  for (const { body } of socket.dump(request)) {
    decoder.visit(body, (element, flags) => {
      const [value] = element.key;
      if (value === undefined || typeof value === "object") catchAlls.push(element);
      else bounds.push({ value, isEnd: (flags & INTERVAL_END) !== 0, element });
    });
  }
  const distinct = new Set(bounds.map(({ value, isEnd }) => `${isEnd} ${value}`));
  if (distinct.size < bounds.length || catchAlls.length > 1) return undefined;
  return [...catchAlls, ...pairIntervals(code, bounds)];
}

/** Joins the two entries of each interval of a single field. The last interval may have no end. */
function pairIntervals({ key: [type] }: ElementCode, bounds: readonly Bound[]): readonly Element[] {
  const sorted = bounds.toSorted((a, b) => {
    if (a.value === b.value) return Number(b.isEnd) - Number(a.isEnd);
    return a.value < b.value ? -1 : 1;
  });
  const largest = type?.decode(new Uint8Array(type.size).fill(0xff)) ?? 0;
  return sorted.flatMap(({ value, isEnd, element }, index) => {
    if (isEnd) return [];
    const next = sorted[index + 1];
    return [{ ...element, key: rangesOf([value], [next === undefined ? largest : predecessor(next.value)]) }];
  });
}

/** Returns the last value of an interval by the first one after it: addresses and ports are numbers. */
function predecessor(value: Scalar): Scalar {
  if (typeof value === "bigint") return value - 1n;
  return typeof value === "number" ? value - 1 : value;
}
