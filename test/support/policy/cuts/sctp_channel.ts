import { type Family, familyOf } from "../../../../kernel/ip/address.ts";
import type { Endpoint } from "../../../lab/probe/endpoint.ts";
import { payloadOf } from "../../../lab/probe/raw_packet.ts";
import {
  ChunkType,
  decodeChunk,
  encodeChunk,
  initiation,
  IPPROTO_SCTP,
  type SctpChunk,
} from "../../../lab/probe/sctp_chunk.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";
import type { Channel, FlowEnd, FlowEnds } from "./channel.ts";

const FIRST_CLIENT_PORT = 30_000;
const CLIENT_TAG = 0x0c11_e575;
const SERVER_TAG = 0x5e47_e575;
/** The flags of a whole DATA chunk: its first and last part (RFC 9260 section 3.3.1). */
const WHOLE = 3;

let opened = 0;

/**
 * An SCTP association on raw sockets, for which the kernel needs no SCTP: connection tracking sees its four steps (RFC
 * 9260 section 5.1), and then DATA in both directions with the receiver's tag. Nothing is acknowledged or repeated.
 */
export class SctpChannel implements Channel {
  readonly refusals = { client: 0, server: 0 };
  readonly #family: Family;
  readonly #to: Endpoint;
  readonly #at: Endpoint;
  readonly #clientPort = FIRST_CLIENT_PORT + (opened++ % 30_000);
  readonly #client: ProbeSocket;
  readonly #server: ProbeSocket;
  readonly #arrived = { client: 0, server: 0 };
  #isEstablished = false;
  /** The client's address and port as the server sees them. */
  #peer: Endpoint | undefined;
  #sent = 0;

  constructor(ends: FlowEnds) {
    this.#family = familyOf(ends.to.address);
    this.#to = ends.to;
    this.#at = ends.at;
    this.#server = ProbeSocket.open(ends.server, this.#family, SocketType.RAW, IPPROTO_SCTP);
    this.#server.bind({ address: ends.at.address, port: 0 });
    this.#client = ProbeSocket.open(ends.client, this.#family, SocketType.RAW, IPPROTO_SCTP);
    this.#client.bind({ address: ends.clientAddress, port: 0 });
    this.#client.connect({ address: ends.to.address, port: 0 });
  }

  send(sender: FlowEnd): void {
    if (!this.#isEstablished) this.#fromClient(ChunkType.INIT, 0, initiation(CLIENT_TAG));
    else if (sender === "client") this.#fromClient(ChunkType.DATA, SERVER_TAG, this.#data());
    else this.#fromServer(ChunkType.DATA, this.#data());
  }

  received(receiver: FlowEnd): number {
    for (const chunk of this.#drain(this.#server, this.#at.port)) this.#atServer(chunk);
    for (const chunk of this.#drain(this.#client, this.#clientPort)) this.#atClient(chunk);
    const arrived = this.#arrived[receiver];
    this.#arrived[receiver] = 0;
    return arrived;
  }

  close(): void {
    for (const socket of [this.#client, this.#server]) socket.close();
  }

  #atServer({ chunkType, verificationTag }: SctpChunk): void {
    if (chunkType === ChunkType.INIT) this.#fromServer(ChunkType.INIT_ACK, initiation(SERVER_TAG));
    else if (verificationTag !== SERVER_TAG) return;
    else if (chunkType === ChunkType.COOKIE_ECHO) this.#fromServer(ChunkType.COOKIE_ACK, new Uint8Array(0));
    else if (chunkType === ChunkType.DATA) this.#arrived.server++;
  }

  #atClient({ chunkType, sourcePort, verificationTag }: SctpChunk): void {
    if (verificationTag !== CLIENT_TAG || sourcePort !== this.#to.port) return;
    if (chunkType === ChunkType.INIT_ACK) this.#fromClient(ChunkType.COOKIE_ECHO, SERVER_TAG, new Uint8Array(4));
    else if (chunkType === ChunkType.COOKIE_ACK) this.#isEstablished = true;
    else if (chunkType === ChunkType.DATA) this.#arrived.client++;
  }

  #fromClient(chunkType: number, verificationTag: number, value: Uint8Array): void {
    const ports = { sourcePort: this.#clientPort, destinationPort: this.#to.port };
    const errno = -this.#client.send(
      encodeChunk({ ...ports, verificationTag, chunkType, flags: flagsOf(chunkType), value }),
    );
    if (errno > 0 && this.refusals.client === 0) this.refusals.client = errno;
  }

  #fromServer(chunkType: number, value: Uint8Array): void {
    if (this.#peer === undefined) return;
    const { address, port: destinationPort } = this.#peer;
    const ports = { sourcePort: this.#at.port, destinationPort };
    const packet = encodeChunk({ ...ports, verificationTag: CLIENT_TAG, chunkType, flags: flagsOf(chunkType), value });
    this.#server.sendTo(packet, { address, port: 0 });
  }

  /** Returns the parameters of a DATA chunk, and one byte. */
  #data(): Uint8Array {
    const value = new Uint8Array(13);
    new DataView(value.buffer).setUint32(0, ++this.#sent);
    return value;
  }

  /** Returns the chunks for a port: a raw socket receives all packets of its protocol. */
  *#drain(socket: ProbeSocket, port: number): Generator<SctpChunk> {
    for (const next of socket.drain()) {
      if (next.kind !== "data") continue;
      const payload = payloadOf(this.#family, next.data);
      const chunk = payload === undefined ? undefined : decodeChunk(payload);
      if (chunk?.destinationPort !== port) continue;
      if (socket === this.#server && next.from !== undefined) {
        this.#peer = { address: next.from.address, port: chunk.sourcePort };
      }
      yield chunk;
    }
  }
}

function flagsOf(chunkType: number): number {
  return chunkType === ChunkType.DATA ? WHOLE : 0;
}
