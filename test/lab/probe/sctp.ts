import { type Family, familyOf } from "../../../kernel/ip/address.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import { attemptByPacket } from "./packet_attempt.ts";
import { isSameToken, type Protocol } from "./protocol.ts";
import { payloadOf } from "./raw_packet.ts";
import { ChunkType, IPPROTO_SCTP } from "./sctp_chunk.ts";
import { decodeSctp, encodeSctp, type SctpPacket } from "./sctp_packet.ts";
import { ProbeSocket, SocketType } from "./socket.ts";

const FIRST_SOURCE_PORT = 20_000;
const SOURCE_PORTS = 40_000;

let attempts = 0;

/**
 * SCTP: an INIT with the token, and an INIT ACK that returns it as its cookie.
 *
 * Both ends use raw sockets, so the kernel needs no SCTP; connection tracking and NAT see the setup of a real
 * association.
 */
export const sctp: Protocol = {
  respond(poller, at, sighting) {
    const family = familyOf(at.address);
    const socket = ProbeSocket.open(at.namespace, family, SocketType.RAW, IPPROTO_SCTP);
    socket.bind({ address: at.address, port: 0 });
    poller.watch(socket, {
      onReadable: () => {
        for (const next of socket.drain()) {
          if (next.kind !== "data" || next.from === undefined) continue;
          const init = receivedPacket(family, next.data);
          if (init?.chunkType !== ChunkType.INIT || init.destinationPort !== at.port) continue;
          sighting(init.token, { address: next.from.address, port: init.sourcePort });
          socket.sendTo(acknowledgementOf(init), { address: next.from.address, port: 0 });
        }
      },
    });
  },

  attempt(poller, { from, to, source }, token, verdict) {
    const family = familyOf(to.address);
    const sourcePort = FIRST_SOURCE_PORT + (attempts++ % SOURCE_PORTS);
    // An initiate tag must not be zero (RFC 9260 section 3.3.2).
    const initiateTag = (new DataView(token.buffer, token.byteOffset).getUint32(0) | 1) >>> 0;
    const packet = encodeSctp({
      sourcePort,
      destinationPort: to.port,
      verificationTag: 0,
      chunkType: ChunkType.INIT,
      initiateTag,
      token,
    });
    const isAnswer = (data: Uint8Array): boolean => {
      const answer = receivedPacket(family, data);
      return (
        answer?.chunkType === ChunkType.INIT_ACK &&
        answer.destinationPort === sourcePort &&
        answer.sourcePort === to.port &&
        answer.verificationTag === initiateTag &&
        isSameToken(answer.token, token)
      );
    };
    const socket = ProbeSocket.open(from, family, SocketType.RAW, IPPROTO_SCTP);
    if (source !== undefined) check(socket.bindOwn(family, 0, source), "bind a sender of SCTP");
    return attemptByPacket(poller, { socket, to: { address: to.address, port: 0 }, packet, isAnswer }, verdict);
  },
};

function acknowledgementOf(init: SctpPacket): Uint8Array {
  return encodeSctp({
    sourcePort: init.destinationPort,
    destinationPort: init.sourcePort,
    verificationTag: init.initiateTag,
    chunkType: ChunkType.INIT_ACK,
    initiateTag: init.initiateTag,
    token: init.token,
  });
}

function receivedPacket(family: Family, received: Uint8Array): SctpPacket | undefined {
  const payload = payloadOf(family, received);
  return payload === undefined ? undefined : decodeSctp(payload);
}
