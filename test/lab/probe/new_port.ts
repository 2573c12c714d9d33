import type { Address, Family } from "../../../kernel/ip/address.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import type { ProbeSocket } from "./socket.ts";

const FIRST_SOURCE_PORT = 20_000;
const SOURCE_PORTS = 40_000;

let attempts = 0;

/**
 * Binds a sender to an unused source port. A port that is used again within half a minute, as random ones may be, would
 * continue the flow that connection tracking and NAT still have for it, wherever that went.
 *
 * @throws SyscallError when the address does not belong to this namespace
 */
export function bindToNew(socket: ProbeSocket, family: Family, source: Address | undefined): void {
  for (let left = 100; ; left--) {
    const result = socket.bindOwn(family, FIRST_SOURCE_PORT + (attempts++ % SOURCE_PORTS), source);
    if (result !== -Errno.EADDRINUSE || left === 0) return void check(result, "bind a sender to a port");
  }
}
