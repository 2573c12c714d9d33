import { type Family, familyOf } from "../../../kernel/ip/address.ts";
import { attemptByPacket } from "./packet_attempt.ts";
import { isSameToken, type Protocol, type Token } from "./protocol.ts";
import { internetChecksum, payloadOf } from "./raw_packet.ts";
import { ProbeSocket, SocketType } from "./socket.ts";

const HEADER_SIZE = 8;
const PROTOCOL = { 4: 1, 6: 58 } as const;
const ECHO_REQUEST = { 4: 8, 6: 128 } as const;
const ECHO_REPLY = { 4: 0, 6: 129 } as const;

/** ICMP echo. The target's kernel answers; the responder only watches, to see the source address of a request. */
export const icmp: Protocol = {
  respond(poller, at, sighting) {
    const family = familyOf(at.address);
    const socket = ProbeSocket.open(at.namespace, family, SocketType.RAW, PROTOCOL[family]);
    socket.bind({ address: at.address, port: 0 });
    poller.watch(socket, {
      onReadable: () => {
        for (const next of socket.drain()) {
          if (next.kind !== "data" || next.from === undefined) continue;
          const token = echoToken(family, next.data, ECHO_REQUEST[family]);
          if (token !== undefined) sighting(token, { address: next.from.address, port: 0 });
        }
      },
    });
  },

  attempt(poller, { from, to }, token, verdict) {
    const family = familyOf(to.address);
    const socket = ProbeSocket.open(from, family, SocketType.RAW, PROTOCOL[family]);
    const isAnswer = (data: Uint8Array): boolean => {
      const echoed = echoToken(family, data, ECHO_REPLY[family]);
      return echoed !== undefined && isSameToken(echoed, token);
    };
    const packet = echoRequest(family, token);
    return attemptByPacket(poller, { socket, to: { address: to.address, port: 0 }, packet, isAnswer }, verdict);
  },
};

/**
 * Returns an echo request with the token (RFC 792, RFC 4443 section 4.1).
 *
 * The identifier is the token's first two bytes, so that connection tracking distinguishes attempts. The kernel fills
 * in the ICMPv6 checksum, which covers the addresses.
 */
function echoRequest(family: Family, token: Token): Uint8Array {
  const packet = new Uint8Array(HEADER_SIZE + token.length);
  packet[0] = ECHO_REQUEST[family];
  packet.set(token.subarray(0, 2), 4);
  packet[7] = 1;
  packet.set(token, HEADER_SIZE);
  if (family === 4) new DataView(packet.buffer).setUint16(2, internetChecksum(packet));
  return packet;
}

function echoToken(family: Family, received: Uint8Array, type: number): Token | undefined {
  const message = payloadOf(family, received);
  return message !== undefined && message[0] === type ? message.slice(HEADER_SIZE) : undefined;
}
