import { DrawbridgeError } from "../../kernel/error.ts";

/** A piece of what an item holds. Numbers are little-endian, as on both machines. */
export type Part =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | { readonly kind: "number"; readonly size: 4 | 8; readonly value: number }
  | { readonly kind: "pointer"; readonly symbol: string };

/** Constants are never written; data begins with contents; a buffer begins with zeros, which the file does not hold. */
export type Section = "constants" | "data" | "buffers";

/** Something in the shim's memory that operations name. */
export type Item =
  | { readonly section: "constants" | "data"; readonly name: string; readonly parts: readonly Part[] }
  | { readonly section: "buffers"; readonly name: string; readonly size: number };

/** What says where a symbol is. */
export type AddressOf = (symbol: string) => number;

/** Addresses of a section's items, and where it ends. */
export interface Placement {
  readonly addresses: ReadonlyMap<string, number>;
  readonly end: number;
}

/** A text as C reads it. The caller has seen to it that there is no NUL inside. */
export function cString(value: string): Part {
  return { kind: "bytes", bytes: new TextEncoder().encode(`${value}\0`) };
}

/** A text by itself, for who knows its length. */
export function text(value: string): Part {
  return { kind: "bytes", bytes: new TextEncoder().encode(value) };
}

/** An unsigned number of 4 bytes. */
export function u32(value: number): Part {
  return { kind: "number", size: 4, value };
}

/** An unsigned number of 8 bytes. */
export function u64(value: number): Part {
  return { kind: "number", size: 8, value };
}

/** The address of another item. */
export function pointer(symbol: string): Part {
  return { kind: "pointer", symbol };
}

/** Bytes that a list of parts takes. */
export function sizeOf(parts: readonly Part[]): number {
  return parts.reduce((sum, part) => sum + partSize(part), 0);
}

/** The next multiple of a power of two. */
export function align(value: number, alignment: number): number {
  return Math.ceil(value / alignment) * alignment;
}

/** Pointers and 64-bit numbers are where both machines' ABIs want them. */
const ALIGNMENT = 8;

/** Gives the items of one section their addresses, in their order, from an address on. */
export function place(items: readonly Item[], section: Section, start: number): Placement {
  const addresses = new Map<string, number>();
  let end = align(start, ALIGNMENT);
  for (const item of items.filter((candidate) => candidate.section === section)) {
    addresses.set(item.name, end);
    end = align(end + (item.section === "buffers" ? item.size : sizeOf(item.parts)), ALIGNMENT);
  }
  return { addresses, end };
}

/** The contents of one section, whose items are where {@link place} put them. */
export function fill(items: readonly Item[], section: "constants" | "data", addressOf: AddressOf): Uint8Array {
  const pieces = items.flatMap((item) => {
    if (item.section !== section) return [];
    const size = sizeOf(item.parts);
    return [...item.parts.map((part) => partBytes(part, addressOf)), new Uint8Array(align(size, ALIGNMENT) - size)];
  });
  return Uint8Array.from(pieces.flatMap((piece) => [...piece]));
}

/**
 * What knows the addresses of several sections.
 *
 * @throws DrawbridgeError ERR_INPUT from the returned function, for a symbol that none of them has
 */
export function addressesOf(...placements: readonly Placement[]): AddressOf {
  const addresses = new Map(placements.flatMap((placement) => [...placement.addresses]));
  return (symbol) => {
    const found = addresses.get(symbol);
    if (found === undefined) throw new DrawbridgeError("ERR_INPUT", `symbol: "${symbol}" is not in the image`);
    return found;
  };
}

function partSize(part: Part): number {
  if (part.kind === "bytes") return part.bytes.length;
  return part.kind === "number" ? part.size : 8;
}

function partBytes(part: Part, addressOf: AddressOf): Uint8Array {
  if (part.kind === "bytes") return part.bytes;
  const bytes = new Uint8Array(partSize(part));
  const value = part.kind === "number" ? part.value : addressOf(part.symbol);
  const view = new DataView(bytes.buffer);
  if (bytes.length === 4) view.setUint32(0, value, true);
  else view.setBigUint64(0, BigInt(value), true);
  return bytes;
}
