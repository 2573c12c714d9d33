import { timeval } from "./unix_stream.ts";
import { Errno } from "./syscall/errno.ts";
import { check, type Syscalls } from "./syscall/syscalls.ts";
import { type Address, addressToBytes, familyOf } from "./ip/address.ts";

const AF_INET = 2;
const AF_INET6 = 10;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
/** The type of a socket, and its option for the longest wait: SO_SNDTIMEO bounds a connect, SO_RCVTIMEO a read (socket(7)). */
const KINDS = { tcp: { type: 1, timeout: 21 }, udp: { type: 2, timeout: 20 } } as const;
/** A port on which nothing listens on a node (RFC 863). */
const DISCARD_PORT = 9;

/**
 * Tells whether a connection from one of this node's addresses reaches another address: the kernel there refuses the
 * port, or a program accepts it.
 *
 * A refusal is a TCP reset. A datagram would be answered with an ICMP error, and Linux sends a destination only one of
 * them a second (icmp(7), icmp_ratelimit), so the next probe would get no answer.
 *
 * @param milliseconds how long to wait for an answer
 * @returns false without an answer, which may have been lost, dropped or never sent
 * @throws SyscallError when the kernel refuses the socket or the source address
 */
export function isReached(
  syscalls: Syscalls,
  from: Address,
  to: Address,
  milliseconds: number,
  { source, destination }: ProbePorts = { source: 0, destination: DISCARD_PORT },
): boolean {
  const fd = openProbeSocket(syscalls, "tcp", { address: from, port: source }, milliseconds);
  try {
    const result = syscalls.connect(fd, socketAddressOf(to, destination));
    return result >= 0 || result === -Errno.ECONNREFUSED;
  } finally {
    syscalls.close(fd);
  }
}

/** A port of each end of a connection; by default one that the kernel chooses, and one on which nothing listens. */
export interface ProbePorts {
  readonly source: number;
  readonly destination: number;
}

/**
 * Opens a socket at an address. A TCP connect, or a UDP read, ends after some milliseconds.
 *
 * @returns the file descriptor
 * @throws SyscallError when the kernel refuses the socket or the address
 */
export function openProbeSocket(
  syscalls: Syscalls,
  protocol: "tcp" | "udp",
  { address, port }: { readonly address: Address; readonly port: number },
  milliseconds: number,
): number {
  const { type, timeout } = KINDS[protocol];
  const domain = familyOf(address) === 4 ? AF_INET : AF_INET6;
  const fd = check(syscalls.socket(domain, type | SOCK_CLOEXEC, 0), "socket for a probe");
  try {
    check(syscalls.setsockopt(fd, SOL_SOCKET, timeout, timeval(milliseconds)), "timeout of a probe");
    check(syscalls.bind(fd, socketAddressOf(address, port)), "source of a probe");
    return fd;
  } catch (error) {
    syscalls.close(fd);
    throw error;
  }
}

/** Returns struct sockaddr_in or sockaddr_in6 (ip(7), ipv6(7)). */
export function socketAddressOf(address: Address, port: number): Uint8Array {
  const isV4 = familyOf(address) === 4;
  const bytes = new Uint8Array(isV4 ? 16 : 28);
  new Uint16Array(bytes.buffer, 0, 1)[0] = isV4 ? AF_INET : AF_INET6;
  new DataView(bytes.buffer).setUint16(2, port);
  bytes.set(addressToBytes(address), isV4 ? 4 : 8);
  return bytes;
}
