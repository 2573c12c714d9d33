/** Whether this machine stores the low byte first. Netlink speaks the byte order of the machine. */
export const littleEndian: boolean = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

/** Small writers come by the thousand: each has a piece of one of these, so that not each has memory of its own. */
const POOL_BYTES = 16 * 1024;
const LARGEST_PIECE = 512;
let pool = new ArrayBuffer(0);
let poolUsed = 0;

/** As many zeros, that nobody else has or had. */
function zeros(count: number): Uint8Array<ArrayBuffer> {
  if (count > LARGEST_PIECE) return new Uint8Array(count);
  if (poolUsed + count > pool.byteLength) {
    pool = new ArrayBuffer(POOL_BYTES);
    poolUsed = 0;
  }
  const piece = new Uint8Array(pool, poolUsed, count);
  // The next one begins at a multiple of eight, as memory of its own would.
  poolUsed += (count + 7) & ~7;
  return piece;
}

const textEncoder = new TextEncoder();

/** An append-only buffer of netlink data in host byte order, or where the name says `be` network order; it grows. */
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

  /** Bytes written so far. */
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

  /** Fills with zeros up to a multiple of four, the alignment of netlink messages and attributes. */
  align(): void {
    this.#reserve((4 - (this.#length & 3)) & 3);
  }

  /** Starts an attribute and returns where, for {@link endAttribute}. */
  beginAttribute(type: number): number {
    const offset = this.#reserve(4);
    this.#view.setUint16(offset + 2, type, littleEndian);
    return offset;
  }

  /** Ends the attribute that starts at an offset and returns its length, which has 16 bits in the message. */
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

  /** The bytes written so far, as a view that later writes may invalidate. */
  view(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#length);
  }

  /** May replace the view, so callers take it only afterwards. */
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
