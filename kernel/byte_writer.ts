import { littleEndian } from "./byte_order.ts";

/** Small writers come by the thousand, so they share buffers of this size instead of allocating their own. */
const POOL_BYTES = 16 * 1024;
const LARGEST_PIECE = 512;
let pool = new ArrayBuffer(0);
let poolUsed = 0;

/** Returns `count` zero bytes that nobody else uses or has used. */
function zeros(count: number): Uint8Array<ArrayBuffer> {
  if (count > LARGEST_PIECE) return new Uint8Array(count);
  if (poolUsed + count > pool.byteLength) {
    pool = new ArrayBuffer(POOL_BYTES);
    poolUsed = 0;
  }
  const piece = new Uint8Array(pool, poolUsed, count);
  // The next piece begins at a multiple of eight, like memory of its own.
  poolUsed += (count + 7) & ~7;
  return piece;
}

const textEncoder = new TextEncoder();

/** A growing, append-only buffer of netlink data in host byte order, or in network order where the name says `be`. */
export class Writer {
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView;
  #length = 0;
  #capacity: number;

  constructor(capacity = 512) {
    this.#bytes = zeros(capacity);
    this.#capacity = capacity;
    this.#view = viewOf(this.#bytes);
  }

  /** The number of bytes written. */
  get length(): number {
    return this.#length;
  }

  u8(value: number): void {
    const offset = this.#length;
    this.#length += 1;
    if (this.#length > this.#capacity) this.#grow(offset);
    this.#view.setUint8(offset, value);
  }

  u16(value: number): void {
    const offset = this.#length;
    this.#length += 2;
    if (this.#length > this.#capacity) this.#grow(offset);
    this.#view.setUint16(offset, value, littleEndian);
  }

  u32(value: number): void {
    const offset = this.#length;
    this.#length += 4;
    if (this.#length > this.#capacity) this.#grow(offset);
    this.#view.setUint32(offset, value, littleEndian);
  }

  i32(value: number): void {
    const offset = this.#length;
    this.#length += 4;
    if (this.#length > this.#capacity) this.#grow(offset);
    this.#view.setInt32(offset, value, littleEndian);
  }

  u64(value: bigint): void {
    const offset = this.#reserve(8);
    this.#view.setBigUint64(offset, value, littleEndian);
  }

  be16(value: number): void {
    const offset = this.#length;
    this.#length += 2;
    if (this.#length > this.#capacity) this.#grow(offset);
    this.#view.setUint16(offset, value);
  }

  be32(value: number): void {
    const offset = this.#length;
    this.#length += 4;
    if (this.#length > this.#capacity) this.#grow(offset);
    this.#view.setUint32(offset, value);
  }

  be64(value: bigint): void {
    const offset = this.#reserve(8);
    this.#view.setBigUint64(offset, value);
  }

  bytes(value: Uint8Array): void {
    const offset = this.#reserve(value.length);
    this.#bytes.set(value, offset);
  }

  /** Appends a text as UTF-8. */
  text(value: string): void {
    const start = this.#reserve(value.length);
    for (let i = 0; i < value.length; i++) {
      const code = value.charCodeAt(i);
      if (code > 127) {
        this.#length = start;
        return this.bytes(textEncoder.encode(value));
      }
      this.#bytes[start + i] = code;
    }
  }

  /** Appends zeros up to a multiple of four, the alignment of netlink messages and attributes. */
  align(): void {
    if ((this.#length & 3) !== 0) this.#reserve(4 - (this.#length & 3));
  }

  /** Appends zeros. @returns a view of them, for numbers in them; later writes may invalidate it */
  zeros(count: number): DataView {
    const offset = this.#reserve(count);
    return new DataView(this.#bytes.buffer, this.#bytes.byteOffset + offset, count);
  }

  /** Starts an attribute. @returns its offset, for {@link endAttribute} */
  beginAttribute(type: number): number {
    const offset = this.#length;
    this.#length += 4;
    if (this.#length > this.#capacity) this.#grow(offset);
    this.#view.setUint16(offset + 2, type, littleEndian);
    return offset;
  }

  /** Ends the attribute that starts at an offset. @returns its length, of which the message stores only 16 bits */
  endAttribute(offset: number): number {
    const length = this.#length - offset;
    this.#view.setUint16(offset, length, littleEndian);
    if ((length & 3) !== 0) this.#reserve(4 - (length & 3));
    return length;
  }

  /** Returns the bytes written so far, as a view that later writes may invalidate. */
  view(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Appends zeros. @returns their offset. It may replace the view: take the view only afterwards */
  #reserve(count: number): number {
    const offset = this.#length;
    this.#length += count;
    if (this.#length > this.#capacity) this.#grow(offset);
    return offset;
  }

  /**
   * Makes room for the length. Each method for a number calls it itself where the room does not suffice: an ADD of a pod
   * writes a thousand of them, and calls are most of what the plugin's engine does.
   *
   * @param used the number of bytes written before
   */
  #grow(used: number): void {
    this.#capacity = Math.max(this.#length, 2 * this.#capacity);
    const grown = zeros(this.#capacity);
    grown.set(this.#bytes.subarray(0, used));
    this.#bytes = grown;
    this.#view = viewOf(grown);
  }
}

/** Returns a view of bytes. */
export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
