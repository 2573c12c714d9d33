import { DrawbridgeError } from "../error.ts";
import { littleEndian } from "../byte_order.ts";
import type { Writer } from "../byte_writer.ts";

/**
 * A C struct without implicit padding: its fields in order with their widths; `be16` and `be32` are in network order.
 */
export type StructLayout = Readonly<Record<string, "u8" | "u16" | "u32" | "i32" | "be16" | "be32">>;

/** The values of a struct's fields. */
export type StructValues<L extends StructLayout> = { readonly [K in keyof L]: number };

const widths = { u8: 1, u16: 2, u32: 4, i32: 4, be16: 2, be32: 4 } as const;

const sizes = new WeakMap<StructLayout, number>();

/** Returns the size of the struct in bytes. */
export function structSize(layout: StructLayout): number {
  let size = sizes.get(layout);
  if (size !== undefined) return size;
  size = 0;
  for (const field in layout) size += widths[layout[field] ?? "u8"];
  sizes.set(layout, size);
  return size;
}

/** Appends a struct; fields omitted are zero. */
export function encodeStruct<L extends StructLayout>(
  writer: Writer,
  layout: L,
  values: Partial<StructValues<L>>,
): void {
  for (const field in layout) writer[layout[field] ?? "u8"](values[field] ?? 0);
}

/**
 * Reads a struct from the start of a buffer.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when the buffer is shorter than the struct
 */
export function decodeStruct<L extends StructLayout>(layout: L, buffer: Uint8Array): StructValues<L> {
  const size = structSize(layout);
  if (buffer.length < size) {
    throw new DrawbridgeError("ERR_NETLINK_MALFORMED", `netlink struct: ${buffer.length} bytes; expected ${size}`);
  }
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  const values: Record<string, number> = {};
  let offset = 0;
  for (const field in layout) {
    const width = layout[field] ?? "u8";
    if (width === "u8") values[field] = view.getUint8(offset);
    else if (width === "u16") values[field] = view.getUint16(offset, littleEndian);
    else if (width === "u32") values[field] = view.getUint32(offset, littleEndian);
    else if (width === "be16") values[field] = view.getUint16(offset);
    else if (width === "be32") values[field] = view.getUint32(offset);
    else values[field] = view.getInt32(offset, littleEndian);
    offset += widths[width];
  }
  return values as StructValues<L>;
}
