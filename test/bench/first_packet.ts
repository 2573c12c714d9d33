import type { LabNamespace } from "../lab/namespace.ts";
import type { Endpoint } from "../lab/probe/endpoint.ts";
import { ProbeSocket, SocketType } from "../lab/probe/socket.ts";

const PACKET = Uint8Array.of(1);
/**
 * The longest wait for a packet. It arrives while it is sent: the receiver at the other end of the veth pair is served
 * before the call returns.
 */
const PATIENCE_MILLISECONDS = 1000;

/**
 * Sends the first packet of a flow over UDP and IPv4.
 *
 * @returns the milliseconds from the client's call until the server's socket has it; undefined when it does not come
 */
export function firstPacket(
  from: LabNamespace,
  to: Endpoint,
  server: ProbeSocket,
  patience = PATIENCE_MILLISECONDS,
): number | undefined {
  const client = ProbeSocket.open(from, 4, SocketType.DATAGRAM);
  try {
    client.connect(to);
    const start = performance.now();
    client.send(PACKET);
    for (;;) {
      const received = server.receive();
      const milliseconds = performance.now() - start;
      if (received.kind === "data") return milliseconds;
      if (milliseconds > patience) return undefined;
    }
  } finally {
    client.close();
  }
}

/**
 * Sends first packets of flows, one after the other. @returns the microseconds of each, as {@link firstPacket} @throws
 * Error when one is lost
 */
export function firstPackets(from: LabNamespace, to: Endpoint, server: ProbeSocket, count: number): readonly number[] {
  return Array.from({ length: count }, () => {
    const milliseconds = firstPacket(from, to, server);
    if (milliseconds === undefined) throw new Error(`${from.name}: a first packet was lost`);
    return 1000 * milliseconds;
  });
}

/** Runs the program ip with these arguments. */
export function ip(namespace: LabNamespace, command: string): void {
  namespace.exec("ip", command.split(" "));
}
