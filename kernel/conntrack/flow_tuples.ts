import { type Address, addressFromBytes, type Family } from "../ip/address.ts";
import { familyFromNumber } from "../netlink/address_family.ts";
import { littleEndian } from "../byte_order.ts";
import { type ConntrackTuple, tupleTable } from "./tuple.ts";
import { entryLayout } from "./entry.ts";

/** The addresses of one direction, and the ports of a protocol that has them. */
export type FlowAddressing = Pick<ConntrackTuple, "source" | "destination" | "sourcePort" | "destinationPort">;

/** The part of an entry that suffices for most decisions about it. */
export interface FlowTuples {
  readonly family: Family;
  readonly original: FlowAddressing;
  readonly reply: FlowAddressing;
}

const NETFILTER_HEADER = 4;
const TYPE_MASK = 0x3fff;
const ORIGINAL = entryLayout.attributes.original[0];
const REPLY = entryLayout.attributes.reply[0];
const ID = entryLayout.attributes.id[0];
const IP = tupleTable.ip[0];
const PROTOCOL = tupleTable.protocol[0];
const ipTypes = { 4: { source: 1, destination: 2 }, 6: { source: 3, destination: 4 } } as const;
const portTypes = { source: 2, destination: 3 } as const;

/** A byte range of a message. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * Returns only the tuples of an entry's message, for a tenth of the work of reading all of it. Of a table with fifty
 * thousand flows, all but a few are usually skipped.
 *
 * @returns undefined for an unexpected message, so that `parseEntry` reports why
 */
export function peekTuples(body: Uint8Array): FlowTuples | undefined {
  const family = familyFromNumber(body[0] ?? 0);
  if (family === undefined) return undefined;
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const whole = attributesOf(body);
  const original = addressing(body, view, family, find(view, whole, ORIGINAL));
  const reply = addressing(body, view, family, find(view, whole, REPLY));
  return original === undefined || reply === undefined ? undefined : { family, original, reply };
}

/** Returns the ID in an entry's message, as `parseEntry` reads it; 0 without one. */
export function peekId(body: Uint8Array): number {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const span = find(view, attributesOf(body), ID);
  return span === undefined || span.end - span.start !== 4 ? 0 : view.getUint32(span.start);
}

function addressing(
  body: Uint8Array,
  view: DataView,
  family: Family,
  tuple: Span | undefined,
): FlowAddressing | undefined {
  const ip = find(view, tuple, IP);
  const protocol = find(view, tuple, PROTOCOL);
  const source = addressAt(body, family, find(view, ip, ipTypes[family].source));
  const destination = addressAt(body, family, find(view, ip, ipTypes[family].destination));
  if (source === undefined || destination === undefined) return undefined;
  const portAt = (span: Span | undefined): number | undefined =>
    span === undefined || span.end - span.start !== 2 ? undefined : view.getUint16(span.start);
  return {
    source,
    destination,
    sourcePort: portAt(find(view, protocol, portTypes.source)),
    destinationPort: portAt(find(view, protocol, portTypes.destination)),
  };
}

function addressAt(body: Uint8Array, family: Family, span: Span | undefined): Address | undefined {
  if (span === undefined || span.end - span.start !== (family === 4 ? 4 : 16)) return undefined;
  return addressFromBytes(body.subarray(span.start, span.end));
}

/** Returns the range of an entry's attributes. */
export function attributesOf(body: Uint8Array): Span {
  return { start: NETFILTER_HEADER, end: body.byteLength };
}

/** Returns the payload of the first attribute of a type. */
export function find(view: DataView, within: Span | undefined, type: number): Span | undefined {
  if (within === undefined) return undefined;
  for (let offset = within.start; offset + 4 <= within.end;) {
    const length = view.getUint16(offset, littleEndian);
    if (length < 4 || offset + length > within.end) return undefined;
    if ((view.getUint16(offset + 2, littleEndian) & TYPE_MASK) === type) {
      return { start: offset + 4, end: offset + length };
    }
    offset += (length + 3) & ~3;
  }
  return undefined;
}
