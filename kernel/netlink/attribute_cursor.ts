import { DrawbridgeError } from "../error.ts";
import { littleEndian } from "../byte_order.ts";

/** The size of an attribute's header: its length and its number. */
export const HEADER = 4;
/** The low 14 bits of the type field are the number. The other bits mean "nested" and "network byte order". */
export const NUMBER_MASK = 0x3fff;

/** Returns the error for a malformed attribute. */
export function malformed(what: string): DrawbridgeError {
  return new DrawbridgeError("ERR_NETLINK_MALFORMED", `netlink attribute: ${what}`);
}

/** Returns the error for an attribute's length that does not fit the bytes left. */
export function wrongLength(length: number, left: number): DrawbridgeError {
  return malformed(`length ${length} with ${left} bytes left`);
}

/** Demands that the bytes after the last attribute are zeros: alignment, shorter than a header. */
export function demandPadding(buffer: Uint8Array, start: number, end: number): void {
  for (let i = start; i < end; i++) if (buffer[i] !== 0) throw malformed(`${end - start} stray bytes`);
}

/** Steps through attributes of a buffer without an object for each, because set elements come by the ten thousand. */
export class AttributeCursor {
  readonly #buffer: Uint8Array;
  readonly #view: DataView;
  #offset = 0;
  #limit = 0;
  /** The number of the current attribute, and the start and end of its payload in the buffer. */
  number = 0;
  start = 0;
  end = 0;

  constructor(buffer: Uint8Array) {
    this.#buffer = buffer;
    this.#view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  }

  /** Moves before the first attribute between two offsets of the buffer. */
  enter(start: number, end: number): this {
    this.#offset = start;
    this.#limit = end;
    return this;
  }

  /**
   * Moves to the next attribute.
   *
   * @returns false after the last one
   * @throws DrawbridgeError ERR_NETLINK_MALFORMED when the attribute does not fit
   */
  next(): boolean {
    const offset = this.#offset;
    const left = this.#limit - offset;
    if (left < HEADER) {
      demandPadding(this.#buffer, offset, this.#limit);
      return false;
    }
    const length = this.#view.getUint16(offset, littleEndian);
    if (length < HEADER || length > left) throw wrongLength(length, left);
    this.number = this.#view.getUint16(offset + 2, littleEndian) & NUMBER_MASK;
    this.start = offset + HEADER;
    this.end = offset + length;
    this.#offset = offset + ((length + 3) & ~3);
    return true;
  }
}
