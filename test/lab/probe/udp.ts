import type { Address, Family } from "../../../kernel/ip/address.ts";
import { familyOf } from "../../../kernel/ip/address.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import { attemptByPacket } from "./packet_attempt.ts";
import type { Protocol } from "./protocol.ts";
import { isSameToken } from "./protocol.ts";
import { ProbeSocket, SocketType } from "./socket.ts";

const FIRST_SOURCE_PORT = 20_000;
const SOURCE_PORTS = 40_000;

let attempts = 0;

/**
 * Every attempt has a source port of its own: one that came up again within half a minute, as random ones do, would go on
 * with the flow that connection tracking and NAT still know of it, wherever that went.
 */
function bindToNew(socket: ProbeSocket, family: Family, source: Address | undefined): void {
  for (let left = 100; ; left--) {
    const result = socket.bindOwn(family, FIRST_SOURCE_PORT + (attempts++ % SOURCE_PORTS), source);
    if (result !== -Errno.EADDRINUSE || left === 0) return void check(result, "bind a sender of UDP");
  }
}

/** UDP: a datagram that is the token, sent back as it came. */
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
