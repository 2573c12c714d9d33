import { parseAddress } from "../../kernel/ip/address.ts";
import { check } from "../../kernel/syscall/syscalls.ts";
import type { LabNamespace } from "./namespace.ts";
import { ProbeSocket, SocketType } from "./probe/socket.ts";

const IPPROTO_ICMPV6 = 58;
const ROUTER_ADVERTISEMENT = 134;
const HEADER_SIZE = 16;

const IPPROTO_IPV6 = 41;
/** include/uapi/linux/in6.h. */
const IPV6_MULTICAST_IF = 17;
const IPV6_MULTICAST_HOPS = 18;
/** Receivers drop advertisements of any other hop limit, since those have passed a router (RFC 4861, section 6.1.2). */
const HOP_LIMIT = 255;

const ALL_NODES = parseAddress("ff02::1");

/**
 * Sends one router advertisement (RFC 4861, section 4.2) without options to all nodes on a link, from that link's
 * link-local address; the link must be up. The kernel fills in the checksum.
 *
 * @param lifetime seconds for which the sender is a default router; 0 withdraws it
 * @throws SyscallError when it cannot be sent
 */
export function advertiseRouter(router: LabNamespace, link: string, lifetime = 1800): void {
  const socket = ProbeSocket.open(router, 6, SocketType.RAW, IPPROTO_ICMPV6);
  try {
    const set = (option: number, value: number): void => {
      const bytes = new Uint8Array(Int32Array.of(value).buffer);
      check(router.calls.setsockopt(socket.fd, IPPROTO_IPV6, option, bytes), `IPv6 socket option ${option}`);
    };
    set(IPV6_MULTICAST_IF, router.link(link).index);
    set(IPV6_MULTICAST_HOPS, HOP_LIMIT);
    const message = new Uint8Array(HEADER_SIZE);
    message[0] = ROUTER_ADVERTISEMENT;
    new DataView(message.buffer).setUint16(6, lifetime);
    check(socket.sendTo(message, { address: ALL_NODES, port: 0 }), `router advertisement on ${link}`);
  } finally {
    socket.close();
  }
}
