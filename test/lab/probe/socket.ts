import { type Address, type Family, familyOf, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import type { LabCalls } from "../libc.ts";
import type { LabNamespace } from "../namespace.ts";
import {
  AF_INET,
  AF_INET6,
  decodeEndpoint,
  domainOf,
  encodeEndpoint,
  type Endpoint,
  SOCKADDR_SIZE,
} from "./endpoint.ts";

export const SocketType = { STREAM: 1, DATAGRAM: 2, RAW: 3 } as const;

const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SO_REUSEADDR = 2;
const SO_ERROR = 4;
const IPPROTO_IPV6 = 41;
const IPV6_V6ONLY = 26;
const IPPROTO_IP = 0;
const IP_RECVERR = 11;
const IPV6_RECVERR = 25;
const LARGEST_DATAGRAM = 65_536;
const ANY = { 4: parseAddress("0.0.0.0"), 6: parseAddress("::") } as const;

/** The result of a receive: bytes, the end of the stream, nothing yet, or a refusal with its (positive) errno. */
export type Received =
  | { readonly kind: "data"; readonly data: Uint8Array; readonly from: Endpoint | undefined }
  | { readonly kind: "end" }
  | { readonly kind: "nothing" }
  | { readonly kind: "refused"; readonly errno: number };

const buffer = new Uint8Array(LARGEST_DATAGRAM);
const sender = new Uint8Array(SOCKADDR_SIZE);

/**
 * A non-blocking socket of a lab namespace. It stays there, whatever namespace the thread enters.
 *
 * Methods return 0 or more, or minus the errno.
 */
export class ProbeSocket {
  readonly fd: number;
  readonly #calls: LabCalls;

  private constructor(fd: number, calls: LabCalls) {
    this.fd = fd;
    this.#calls = calls;
  }

  /** @throws SyscallError when the kernel does not offer such a socket */
  static open(namespace: LabNamespace, family: Family, type: number, protocol = 0): ProbeSocket {
    const { calls } = namespace;
    const fd = namespace.inside(() =>
      check(
        calls.socket(domainOf(family), type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol),
        `${namespace.name}: socket of type ${type}, protocol ${protocol}, IPv${family}`,
      ),
    );
    if (family === 6 && type !== SocketType.RAW) calls.setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, intBytes(1));
    return new ProbeSocket(fd, calls);
  }

  /**
   * Takes a local port exclusively; 0 lets the kernel choose one.
   *
   * @param address one of this namespace; undefined leaves it to the route
   * @returns minus the errno if the port is taken or the address does not belong to this namespace
   */
  bindOwn(family: Family, port: number, address?: Address): number {
    return this.#calls.bind(this.fd, encodeEndpoint({ address: address ?? ANY[family], port }));
  }

  /** Connects, and from then on gets every ICMP error that the kernel attributes to this socket (ip(7), IP_RECVERR). */
  connect(remote: Endpoint): number {
    const isV4 = familyOf(remote.address) === 4;
    this.#calls.setsockopt(this.fd, isV4 ? IPPROTO_IP : IPPROTO_IPV6, isV4 ? IP_RECVERR : IPV6_RECVERR, intBytes(1));
    return this.#calls.connect(this.fd, encodeEndpoint(remote));
  }

  /** @throws SyscallError when the address is taken or does not belong to this namespace */
  bind(local: Endpoint): void {
    this.#calls.setsockopt(this.fd, SOL_SOCKET, SO_REUSEADDR, intBytes(1));
    check(this.#calls.bind(this.fd, encodeEndpoint(local)), `bind ${formatAddress(local.address)} port ${local.port}`);
  }

  /** @throws SyscallError when the socket cannot listen */
  listen(): void {
    check(this.#calls.listen(this.fd, 4096), "listen");
  }

  accept(): { readonly socket: ProbeSocket; readonly peer: Endpoint } | undefined {
    const fd = this.#calls.accept4(this.fd, sender, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return fd < 0 ? undefined : { socket: new ProbeSocket(fd, this.#calls), peer: decodeEndpoint(sender) };
  }

  send(data: Uint8Array): number {
    return this.#calls.send(this.fd, data, 0);
  }

  sendTo(data: Uint8Array, to: Endpoint): number {
    return this.#calls.sendTo(this.fd, data, 0, encodeEndpoint(to));
  }

  receive(): Received {
    sender.fill(0);
    const length = this.#calls.receiveFrom(this.fd, buffer, 0, sender);
    if (length === -Errno.EAGAIN || length === -Errno.EINTR) return { kind: "nothing" };
    if (length < 0) return { kind: "refused", errno: -length };
    if (length === 0) return { kind: "end" };
    const family = new Uint16Array(sender.buffer, 0, 1)[0];
    const from = family === AF_INET || family === AF_INET6 ? decodeEndpoint(sender) : undefined;
    return { kind: "data", data: buffer.slice(0, length), from };
  }

  /** Yields everything that can be received now, up to and including an end or a refusal. */
  *drain(): Generator<Exclude<Received, { readonly kind: "nothing" }>> {
    for (;;) {
      const next = this.receive();
      if (next.kind === "nothing") return;
      yield next;
      if (next.kind !== "data") return;
    }
  }

  /** Returns the pending error of an asynchronous connect: a positive errno, or 0. */
  takeError(): number {
    const value = new Uint8Array(4);
    this.#calls.getsockopt(this.fd, SOL_SOCKET, SO_ERROR, value);
    return new Int32Array(value.buffer)[0] ?? 0;
  }

  close(): void {
    this.#calls.close(this.fd);
  }
}

function intBytes(value: number): Uint8Array {
  return new Uint8Array(Int32Array.of(value).buffer);
}
