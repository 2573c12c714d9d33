import { DrawbridgeError } from "../kernel/error.ts";

/** The longest message between the plugin and policyd, in bytes without its line end. */
export const LONGEST_MESSAGE = 64 * 1024;

/** The longest time, in milliseconds, that a client of the daemon may announce to wait. */
export const LONGEST_WAIT = 120_000;

const LINE_FEED = 10;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * Returns a message as it is sent over the socket: one line of JSON, which has no line feed inside.
 *
 * @throws DrawbridgeError ERR_PROTOCOL when it is longer than {@link LONGEST_MESSAGE}
 */
export function frame(message: object): Uint8Array {
  const bytes = encoder.encode(`${JSON.stringify(message)}\n`);
  if (bytes.length - 1 > LONGEST_MESSAGE) throw tooLong();
  return bytes;
}

/** Assembles messages from the pieces that a stream delivers. It never holds more than one message's length. */
export class FrameReader {
  #pieces: Uint8Array[] = [];
  #length = 0;

  /** Whether a message has begun and not ended. */
  get isInside(): boolean {
    return this.#length > 0;
  }

  /**
   * Takes the next piece.
   *
   * @returns the texts of the messages that end in it, in order
   * @throws DrawbridgeError ERR_PROTOCOL for a message that is too long or not UTF-8; the stream is then unusable
   */
  push(piece: Uint8Array): readonly string[] {
    const messages: string[] = [];
    let start = 0;
    for (let end = piece.indexOf(LINE_FEED); end >= 0; end = piece.indexOf(LINE_FEED, start)) {
      this.#append(piece.subarray(start, end));
      messages.push(this.#take());
      start = end + 1;
    }
    this.#append(piece.subarray(start));
    return messages;
  }

  #append(piece: Uint8Array): void {
    if (piece.length === 0) return;
    this.#length += piece.length;
    if (this.#length > LONGEST_MESSAGE) throw tooLong();
    // The caller may reuse its buffer.
    this.#pieces.push(piece.slice());
  }

  #take(): string {
    const bytes = new Uint8Array(this.#length);
    let offset = 0;
    for (const piece of this.#pieces) {
      bytes.set(piece, offset);
      offset += piece.length;
    }
    this.#pieces = [];
    this.#length = 0;
    try {
      return decoder.decode(bytes);
    } catch {
      throw new DrawbridgeError("ERR_PROTOCOL", "message: not UTF-8; expected a line of JSON");
    }
  }
}

function tooLong(): DrawbridgeError {
  return new DrawbridgeError("ERR_PROTOCOL", `message: longer than ${LONGEST_MESSAGE} bytes without a line end`);
}
