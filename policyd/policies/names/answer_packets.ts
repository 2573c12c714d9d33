import type { IpHeader } from "../../../kernel/packets/ip_header.ts";
import { viewOf } from "../../../kernel/byte_writer.ts";

interface Stream {
  /** The sequence number of the next byte. */
  next: number;
  /** Bytes whose message is not complete yet: a message has at most 64 KB. */
  waiting: Uint8Array;
}

const UDP_HEADER = 8;
const TCP_HEADER = 20;
const SYN = 0x02;
const ENDING = 0x05;
const LENGTH_BYTES = 2;
/** The most connections at a time from which messages are read. */
const MOST_STREAMS = 1024;

/**
 * Takes the DNS messages out of packets: each of a UDP datagram, and those of a TCP connection from its beginning, as
 * long as its segments come in order. After a gap, or beyond its bound, it returns nothing of a connection, and a client
 * that connects again is read again.
 */
export class AnswerPackets {
  /** By the ends of the connection; the oldest first. */
  readonly #streams = new Map<string, Stream>();

  /** Returns the messages that a packet completes. @param bytes all from the IP header on */
  messagesIn(ip: IpHeader, bytes: Uint8Array): readonly Uint8Array[] {
    const above = bytes.subarray(ip.upperOffset);
    if (ip.isLaterFragment) return [];
    if (ip.protocol === "udp") {
      const isWhole = above.length >= UDP_HEADER && viewOf(above).getUint16(4) <= above.length;
      return isWhole ? [above.subarray(UDP_HEADER, viewOf(above).getUint16(4))] : [];
    }
    if (ip.protocol !== "tcp" || above.length < TCP_HEADER) return [];
    const key = `${ip.source} ${ip.destination} ${ip.sourcePort} ${ip.destinationPort} ${ip.family}`;
    const messages = this.#segment(key, above);
    if ((above[13] ?? 0) & ENDING) this.#streams.delete(key);
    return messages;
  }

  #segment(key: string, segment: Uint8Array): readonly Uint8Array[] {
    const view = viewOf(segment);
    const sequence = view.getUint32(4);
    if (view.getUint8(13) & SYN) {
      this.#begin(key, (sequence + 1) >>> 0);
      return [];
    }
    const stream = this.#streams.get(key);
    const data = segment.subarray((view.getUint8(12) >>> 4) * 4);
    if (stream === undefined || data.length === 0) return [];
    // Bytes that are sent again have been read; a gap is not waited for.
    const known = (stream.next - sequence) | 0;
    if (known >= data.length) return [];
    if (known < 0) {
      this.#streams.delete(key);
      return [];
    }
    stream.next = (sequence + data.length) >>> 0;
    const { messages, rest } = split(joined(stream.waiting, data.subarray(known)));
    stream.waiting = rest;
    return messages;
  }

  #begin(key: string, next: number): void {
    this.#streams.delete(key);
    const [oldest] = this.#streams.keys();
    if (this.#streams.size >= MOST_STREAMS && oldest !== undefined) this.#streams.delete(oldest);
    this.#streams.set(key, { next, waiting: new Uint8Array(0) });
  }
}

/** Returns the messages that are complete, each of which follows its length (RFC 1035 section 4.2.2). */
function split(bytes: Uint8Array): { readonly messages: readonly Uint8Array[]; readonly rest: Uint8Array } {
  const messages: Uint8Array[] = [];
  let at = 0;
  while (at + LENGTH_BYTES <= bytes.length) {
    const end = at + LENGTH_BYTES + viewOf(bytes).getUint16(at);
    if (end > bytes.length) break;
    messages.push(bytes.slice(at + LENGTH_BYTES, end));
    at = end;
  }
  return { messages, rest: bytes.slice(at) };
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  return first.length === 0 ? second : Buffer.concat([first, second]);
}
