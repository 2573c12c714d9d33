import { DrawbridgeError } from "../../kernel/error.ts";

/** A piece of an item's contents. Numbers are little-endian, as on both machines. */
export type Part =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | { readonly kind: "number"; readonly size: 4 | 8; readonly value: number }
  | { readonly kind: "pointer"; readonly symbol: string };

/**
 * Constants are never written; data starts with contents; a buffer starts with zeros, which the file does not contain.
 */
export type Section = "constants" | "data" | "buffers";

/** An object in the shim's memory that operations refer to by name. */
export type Item =
  | { readonly section: "constants" | "data"; readonly name: string; readonly parts: readonly Part[] }
  | { readonly section: "buffers"; readonly name: string; readonly size: number };

/** Returns the address of a symbol. */
export type AddressOf = (symbol: string) => number;

/** The addresses of a section's items, and the section's end. */
export interface Placement {
  readonly addresses: ReadonlyMap<string, number>;
  readonly end: number;
}

/** Returns a C string. The caller ensures that the text contains no NUL. */
export function cString(value: string): Part {
  return { kind: "bytes", bytes: new TextEncoder().encode(`${value}\0`) };
}

/** Returns a text without a NUL, for users that know its length. */
export function text(value: string): Part {
  return { kind: "bytes", bytes: new TextEncoder().encode(value) };
}

/** Returns an unsigned number of 4 bytes. */
export function u32(value: number): Part {
  return { kind: "number", size: 4, value };
}

/** Returns an unsigned number of 8 bytes. */
export function u64(value: number): Part {
  return { kind: "number", size: 8, value };
}

/** Returns the address of another item. */
export function pointer(symbol: string): Part {
  return { kind: "pointer", symbol };
}

/** Returns the size of a list of parts in bytes. */
export function sizeOf(parts: readonly Part[]): number {
  return parts.reduce((sum, part) => sum + partSize(part), 0);
}

/** Returns the next multiple of a power of two. */
export function align(value: number, alignment: number): number {
  return Math.ceil(value / alignment) * alignment;
}

/** The alignment that both machines' ABIs demand for pointers and 64-bit numbers. */
const ALIGNMENT = 8;

/** Assigns addresses to the items of one section, in order, from a start address on. */
export function place(items: readonly Item[], section: Section, start: number): Placement {
  const addresses = new Map<string, number>();
  let end = align(start, ALIGNMENT);
  for (const item of items.filter((candidate) => candidate.section === section)) {
    addresses.set(item.name, end);
    end = align(end + (item.section === "buffers" ? item.size : sizeOf(item.parts)), ALIGNMENT);
  }
  return { addresses, end };
}

/** Returns the contents of one section, whose items {@link place} has placed. */
export function fill(items: readonly Item[], section: "constants" | "data", addressOf: AddressOf): Uint8Array {
  const pieces = items.flatMap((item) => {
    if (item.section !== section) return [];
    const size = sizeOf(item.parts);
    return [...item.parts.map((part) => partBytes(part, addressOf)), new Uint8Array(align(size, ALIGNMENT) - size)];
  });
  return Uint8Array.from(pieces.flatMap((piece) => [...piece]));
}

/**
 * Returns a function that knows the addresses of several sections.
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
