import { isReached, openProbeSocket, socketAddressOf } from "../../../../kernel/closed_port_probe.ts";
import { type Address, familyOf } from "../../../../kernel/ip/address.ts";
import { insideNamespace, type NetworkNamespace } from "../../../../kernel/network_namespace.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import type { Syscalls } from "../../../../kernel/syscall/syscalls.ts";
import type { ProbeFlow } from "../../doctor/probe/flow.ts";

/** The headers before UDP's payload: IP and 8 bytes. */
const HEADERS = { 4: 28, 6: 48 } as const;

/** The namespaces of a probe. */
export interface ProbePlaces {
  readonly home: NetworkNamespace;
  readonly source: NetworkNamespace;
  /** That of the second pod. */
  readonly receiver: NetworkNamespace;
}

/**
 * Sends the first packet of a flow, and waits for it or for its answer.
 *
 * @returns whether an answer came or our own socket has received it; false where the kernel refuses to send it, too
 * @throws SyscallError where a socket or its port is refused
 */
export function send(
  calls: Syscalls,
  { home, source: from, receiver: to }: ProbePlaces,
  flow: ProbeFlow,
  sourcePort: number,
  milliseconds: number,
): boolean {
  const { protocol, source, destination, port } = flow;
  if (protocol === "tcp") {
    const ports = { source: sourcePort, destination: port };
    return insideNamespace(calls, home, from, () => isReached(calls, source, destination, milliseconds, ports));
  }
  const fds: number[] = [];
  const open = (namespace: NetworkNamespace, address: Address, number: number): number =>
    insideNamespace(calls, home, namespace, () => {
      const fd = openProbeSocket(calls, "udp", { address, port: number }, milliseconds);
      fds.push(fd);
      return fd;
    });
  try {
    const receiver = flow.arrives === "received" ? open(to, destination, port) : undefined;
    const sender = open(from, source, sourcePort);
    const payload = new Uint8Array(flow.length - HEADERS[familyOf(source)]);
    if (calls.connect(sender, socketAddressOf(destination, port)) < 0) return false;
    if (calls.send(sender, payload, 0) < 0) return false;
    const result = calls.receiveFrom(receiver ?? sender, new Uint8Array(1), 0, new Uint8Array(28));
    return result >= 0 || (receiver === undefined && result === -Errno.ECONNREFUSED);
  } finally {
    for (const fd of fds) calls.close(fd);
  }
}
