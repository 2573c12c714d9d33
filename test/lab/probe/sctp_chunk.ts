import { crc32c } from "./crc32c.ts";

/** The protocol's number in an IP header. */
export const IPPROTO_SCTP = 132;

const COMMON_HEADER_SIZE = 12;
const CHUNK_HEADER_SIZE = 4;

const RECEIVER_WINDOW = 65_536;
const STREAMS = 1;

/** Chunk types (RFC 9260 section 3.2). */
export const ChunkType = { DATA: 0, INIT: 1, INIT_ACK: 2, COOKIE_ECHO: 10, COOKIE_ACK: 11 } as const;

/** An SCTP packet of one chunk. */
export interface SctpChunk {
  readonly sourcePort: number;
  readonly destinationPort: number;
  /** 0 in an INIT; otherwise the receiver's initiate tag. */
  readonly verificationTag: number;
  readonly chunkType: number;
  readonly flags: number;
  /** The chunk after its header. */
  readonly value: Uint8Array;
}

/** Returns the bytes of a packet, with its checksum. */
export function encodeChunk({ value, ...header }: SctpChunk): Uint8Array {
  const length = CHUNK_HEADER_SIZE + value.length;
  // A chunk is padded to words; its length does not count that.
  const bytes = new Uint8Array(COMMON_HEADER_SIZE + Math.ceil(length / 4) * 4);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, header.sourcePort);
  view.setUint16(2, header.destinationPort);
  view.setUint32(4, header.verificationTag);
  view.setUint8(COMMON_HEADER_SIZE, header.chunkType);
  view.setUint8(COMMON_HEADER_SIZE + 1, header.flags);
  view.setUint16(COMMON_HEADER_SIZE + 2, length);
  bytes.set(value, COMMON_HEADER_SIZE + CHUNK_HEADER_SIZE);
  // Section 6.8: the only field that is sent with its low byte first.
  view.setUint32(8, crc32c(bytes), true);
  return bytes;
}

/**
 * Returns an INIT's or INIT ACK's value without parameters (RFC 9260 section 3.3.2). @param tag never 0; also the first
 * number
 */
export function initiation(tag: number): Uint8Array {
  const value = new Uint8Array(16);
  const view = new DataView(value.buffer);
  view.setUint32(0, tag);
  view.setUint32(4, RECEIVER_WINDOW);
  view.setUint16(8, STREAMS);
  view.setUint16(10, STREAMS);
  view.setUint32(12, tag);
  return value;
}

/** Reads the first chunk of a packet; undefined for a truncated one, or a wrong checksum. */
export function decodeChunk(bytes: Uint8Array): SctpChunk | undefined {
  if (bytes.length < COMMON_HEADER_SIZE + CHUNK_HEADER_SIZE) return undefined;
  const zeroed = bytes.slice();
  const view = new DataView(zeroed.buffer);
  const checksum = view.getUint32(8, true);
  view.setUint32(8, 0);
  const end = COMMON_HEADER_SIZE + view.getUint16(COMMON_HEADER_SIZE + 2);
  if (checksum !== crc32c(zeroed) || end < COMMON_HEADER_SIZE + CHUNK_HEADER_SIZE || end > bytes.length)
    return undefined;
  return {
    sourcePort: view.getUint16(0),
    destinationPort: view.getUint16(2),
    verificationTag: view.getUint32(4),
    chunkType: view.getUint8(COMMON_HEADER_SIZE),
    flags: view.getUint8(COMMON_HEADER_SIZE + 1),
    value: zeroed.slice(COMMON_HEADER_SIZE + CHUNK_HEADER_SIZE, end),
  };
}
