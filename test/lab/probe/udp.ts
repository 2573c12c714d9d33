import { familyOf } from "../../../kernel/ip/address.ts";
import { bindToNew } from "./new_port.ts";
import { attemptByPacket } from "./packet_attempt.ts";
import { isSameToken, type Protocol } from "./protocol.ts";
import { ProbeSocket, SocketType } from "./socket.ts";

/** UDP: a datagram that consists of the token and is sent back unchanged. */
export const udp: Protocol = {
  respond(poller, at, sighting) {
    const socket = ProbeSocket.open(at.namespace, familyOf(at.address), SocketType.DATAGRAM);
    socket.bind(at);
    poller.watch(socket, {
      onReadable: () => {
        for (const next of socket.drain()) {
          if (next.kind !== "data" || next.from === undefined) continue;
          sighting(next.data, next.from);
          socket.sendTo(next.data, next.from);
        }
      },
    });
  },

  attempt(poller, { from, to, source }, token, verdict) {
    const socket = ProbeSocket.open(from, familyOf(to.address), SocketType.DATAGRAM);
    bindToNew(socket, familyOf(to.address), source);
    return attemptByPacket(
      poller,
      { socket, to, packet: token, isAnswer: (data) => isSameToken(data, token) },
      verdict,
    );
  },
};
