import type { Token } from "./protocol.ts";
import { ChunkType, decodeChunk, encodeChunk, initiation } from "./sctp_chunk.ts";

/** The size of an INIT or INIT ACK after the chunk's header. */
const INIT_SIZE = 16;
const PARAMETER_HEADER_SIZE = 4;

/** In an INIT: our own type, whose high bits 10 tell receivers to skip it silently (section 3.2.1). */
const TOKEN_PARAMETER = 0x8db7;
/** In an INIT ACK: the state cookie, whose content only the responder uses. */
const STATE_COOKIE_PARAMETER = 7;

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

/** Returns the bytes of a packet, with its checksum. */
export function encodeSctp({ initiateTag, token, ...header }: SctpPacket): Uint8Array {
  const parameterSize = PARAMETER_HEADER_SIZE + token.length;
  const value = new Uint8Array(INIT_SIZE + parameterSize);
  const view = new DataView(value.buffer);
  value.set(initiation(initiateTag));
  view.setUint16(INIT_SIZE, parameterOf(header.chunkType));
  view.setUint16(INIT_SIZE + 2, parameterSize);
  value.set(token, INIT_SIZE + PARAMETER_HEADER_SIZE);
  return encodeChunk({ ...header, flags: 0, value });
}

/** Reads a packet of {@link encodeSctp}; undefined for every other packet, including one with a wrong checksum. */
export function decodeSctp(bytes: Uint8Array): SctpPacket | undefined {
  const chunk = decodeChunk(bytes);
  if (chunk === undefined) return undefined;
  const { sourcePort, destinationPort, verificationTag, chunkType, value } = chunk;
  if (chunkType !== ChunkType.INIT && chunkType !== ChunkType.INIT_ACK) return undefined;
  if (value.length < INIT_SIZE + PARAMETER_HEADER_SIZE) return undefined;
  const view = new DataView(value.buffer);
  const end = INIT_SIZE + view.getUint16(INIT_SIZE + 2);
  if (view.getUint16(INIT_SIZE) !== parameterOf(chunkType) || end > value.length) return undefined;
  const token = value.slice(INIT_SIZE + PARAMETER_HEADER_SIZE, end);
  return { sourcePort, destinationPort, verificationTag, chunkType, initiateTag: view.getUint32(0), token };
}

function parameterOf(chunkType: SctpPacket["chunkType"]): number {
  return chunkType === ChunkType.INIT ? TOKEN_PARAMETER : STATE_COOKIE_PARAMETER;
}
