import { crc32c } from "./crc32c.ts";
import type { Token } from "./protocol.ts";

const COMMON_HEADER_SIZE = 12;
const CHUNK_HEADER_SIZE = 4;
const INIT_SIZE = 20;
const PARAMETER_HEADER_SIZE = 4;

/** Chunk types (RFC 9260 section 3.2). */
export const ChunkType = { INIT: 1, INIT_ACK: 2 } as const;

/** In an INIT: a type of ours whose high bits 10 tell receivers to skip it silently (section 3.2.1). */
const TOKEN_PARAMETER = 0x8db7;
/** In an INIT ACK: the state cookie, whose content is the responder's own business. */
const STATE_COOKIE_PARAMETER = 7;

const RECEIVER_WINDOW = 65_536;
const STREAMS = 1;

/** An SCTP packet with one INIT or INIT ACK chunk that carries a token. */
export interface SctpPacket {
  readonly sourcePort: number;
  readonly destinationPort: number;
  /** 0 in an INIT; the peer's initiate tag in an INIT ACK. */
  readonly verificationTag: number;
  readonly chunkType: typeof ChunkType.INIT | typeof ChunkType.INIT_ACK;
  /** Never 0. */
  readonly initiateTag: number;
  readonly token: Token;
}

/** The bytes of a packet, with its checksum. */
export function encodeSctp(packet: SctpPacket): Uint8Array {
  const parameterSize = PARAMETER_HEADER_SIZE + packet.token.length;
  const bytes = new Uint8Array(COMMON_HEADER_SIZE + INIT_SIZE + parameterSize);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, packet.sourcePort);
  view.setUint16(2, packet.destinationPort);
  view.setUint32(4, packet.verificationTag);
  const chunk = COMMON_HEADER_SIZE;
  view.setUint8(chunk, packet.chunkType);
  view.setUint16(chunk + 2, INIT_SIZE + parameterSize);
  view.setUint32(chunk + 4, packet.initiateTag);
  view.setUint32(chunk + 8, RECEIVER_WINDOW);
  view.setUint16(chunk + 12, STREAMS);
  view.setUint16(chunk + 14, STREAMS);
  view.setUint32(chunk + 16, packet.initiateTag);
  const parameter = chunk + INIT_SIZE;
  view.setUint16(parameter, packet.chunkType === ChunkType.INIT ? TOKEN_PARAMETER : STATE_COOKIE_PARAMETER);
  view.setUint16(parameter + 2, parameterSize);
  bytes.set(packet.token, parameter + PARAMETER_HEADER_SIZE);
  // Section 6.8: the one field that is sent with its low byte first.
  view.setUint32(8, crc32c(bytes), true);
  return bytes;
}

/** Reads what {@link encodeSctp} writes; undefined for every other packet, one with a wrong checksum included. */
export function decodeSctp(bytes: Uint8Array): SctpPacket | undefined {
  const parameter = COMMON_HEADER_SIZE + INIT_SIZE;
  if (bytes.length < parameter + PARAMETER_HEADER_SIZE) return undefined;
  const zeroed = bytes.slice();
  const view = new DataView(zeroed.buffer);
  const checksum = view.getUint32(8, true);
  view.setUint32(8, 0);
  const chunkType = view.getUint8(COMMON_HEADER_SIZE);
  if (checksum !== crc32c(zeroed) || (chunkType !== ChunkType.INIT && chunkType !== ChunkType.INIT_ACK))
    return undefined;
  const wanted = chunkType === ChunkType.INIT ? TOKEN_PARAMETER : STATE_COOKIE_PARAMETER;
  const chunkEnd = COMMON_HEADER_SIZE + view.getUint16(COMMON_HEADER_SIZE + 2);
  const parameterEnd = parameter + view.getUint16(parameter + 2);
  if (view.getUint16(parameter) !== wanted || parameterEnd > chunkEnd || chunkEnd > bytes.length) return undefined;
  return {
    sourcePort: view.getUint16(0),
    destinationPort: view.getUint16(2),
    verificationTag: view.getUint32(4),
    chunkType,
    initiateTag: view.getUint32(COMMON_HEADER_SIZE + CHUNK_HEADER_SIZE),
    token: zeroed.slice(parameter + PARAMETER_HEADER_SIZE, parameterEnd),
  };
}
