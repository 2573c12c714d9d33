import { setTimeout as pause } from "node:timers/promises";
import { encodeFrame, encodeUdp } from "../../../lab/probe/frame.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";
import { ip } from "../../guard/attack.ts";
import type { GuardedNode } from "../../guard/guarded_node.ts";
import { PORT } from "../../guard/virtual_addresses.ts";

const FLOWS_OF_A_PORT = 60_000;
const EARLIER = 40_000;
const ETHERNET_HEADER = 14;
const IPV4_HEADER = 20;

/**
 * Makes the attacker begin a tenth more connections than the node's table holds. An accomplice on the router answers
 * them, since the kernel does not drop answered connections for others.
 * @returns the largest number of connections that the table held
 */
export async function fillConnections({ attacker, nodes, wired }: GuardedNode, most: number): Promise<number> {
  const [to] = wired.routerAddresses;
  const accomplice = Array.from({ length: Math.ceil((most * 1.1) / FLOWS_OF_A_PORT) }, (_, index) => {
    const socket = ProbeSocket.open(nodes.router, 4, SocketType.DATAGRAM);
    socket.bind({ address: to, port: 1 + index });
    return socket;
  });
  const answer = (): void => {
    for (const socket of accomplice) {
      for (const next of socket.drain()) {
        if (next.kind === "data" && next.from !== undefined) socket.sendTo(next.data, next.from);
      }
    }
  };
  const frame = encodeFrame(
    ip(attacker.mac, attacker.gatewayMac, encodeUdp(attacker.addresses[4], to, PORT, new Uint8Array(2))),
  );
  const packet = new DataView(frame.buffer, frame.byteOffset + ETHERNET_HEADER + IPV4_HEADER);
  // The packet has no checksum, which would differ for each pair of ports (RFC 768).
  packet.setUint16(6, 0);
  let fullest = 0;
  for (let flow = 0; flow < most * 1.1; flow++) {
    // The kernel keeps a flow that has gone on for two seconds in both directions, however full the table is.
    for (const one of [flow, flow - EARLIER].filter((number) => number >= 0)) {
      packet.setUint16(0, 1024 + (one % FLOWS_OF_A_PORT));
      packet.setUint16(2, 1 + Math.floor(one / FLOWS_OF_A_PORT));
      attacker.link.send(frame);
    }
    if (flow % 100 === 0) answer();
    if (flow % 500 > 0) continue;
    fullest = Math.max(fullest, Number(wired.node.readSysctl("net/netfilter/nf_conntrack_count")));
    await pause(1);
  }
  for (const socket of accomplice) socket.close();
  return fullest;
}
