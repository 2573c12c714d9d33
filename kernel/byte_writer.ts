/** Whether this machine stores the low byte first. Netlink uses the byte order of the machine. */
export const littleEndian: boolean = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

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
    const offset = this.#reserve(1);
    this.#view.setUint8(offset, value);
  }

  u16(value: number): void {
    const offset = this.#reserve(2);
    this.#view.setUint16(offset, value, littleEndian);
  }

  u32(value: number): void {
    const offset = this.#reserve(4);
    this.#view.setUint32(offset, value, littleEndian);
  }

  i32(value: number): void {
    const offset = this.#reserve(4);
    this.#view.setInt32(offset, value, littleEndian);
  }

  u64(value: bigint): void {
    const offset = this.#reserve(8);
    this.#view.setBigUint64(offset, value, littleEndian);
  }

  be16(value: number): void {
    const offset = this.#reserve(2);
    this.#view.setUint16(offset, value);
  }

  be32(value: number): void {
    const offset = this.#reserve(4);
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
    this.#reserve((4 - (this.#length & 3)) & 3);
  }

  /** Starts an attribute. @returns its offset, for {@link endAttribute} */
  beginAttribute(type: number): number {
    const offset = this.#reserve(4);
    this.#view.setUint16(offset + 2, type, littleEndian);
    return offset;
  }

  /** Ends the attribute that starts at an offset. @returns its length, of which the message stores only 16 bits */
  endAttribute(offset: number): number {
    const length = this.#length - offset;
    this.#view.setUint16(offset, length, littleEndian);
    this.#reserve((4 - (length & 3)) & 3);
    return length;
  }

  /** Overwrites a 16-bit length written earlier. */
  patchU16(offset: number, value: number): void {
    this.#view.setUint16(offset, value, littleEndian);
  }

  /** Overwrites a 32-bit length written earlier. */
  patchU32(offset: number, value: number): void {
    this.#view.setUint32(offset, value, littleEndian);
  }

  /** Returns the bytes written so far, as a view that later writes may invalidate. */
  view(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Makes room for bytes and returns their offset. It may replace the view: take the view only afterwards. */
  #reserve(count: number): number {
    const offset = this.#length;
    const needed = offset + count;
    if (needed > this.#capacity) {
      this.#capacity = Math.max(needed, 2 * this.#capacity);
      const grown = zeros(this.#capacity);
      grown.set(this.#bytes.subarray(0, offset));
      this.#bytes = grown;
      this.#view = viewOf(grown);
    }
    this.#length = needed;
    return offset;
  }
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
