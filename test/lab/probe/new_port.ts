import type { Address, Family } from "../../../kernel/ip/address.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import type { ProbeSocket } from "./socket.ts";

const FIRST_SOURCE_PORT = 20_000;
const SOURCE_PORTS = 40_000;

let attempts = 0;

/**
 * Binds a sender to a source port that none has had: one that came up again within half a minute, as random ones do, would
 * go on with the flow that connection tracking and NAT still know of it, wherever that went.
 *
 * @throws SyscallError when the address is not of this namespace
 */
export function bindToNew(socket: ProbeSocket, family: Family, source: Address | undefined): void {
  for (let left = 100; ; left--) {
    const result = socket.bindOwn(family, FIRST_SOURCE_PORT + (attempts++ % SOURCE_PORTS), source);
    if (result !== -Errno.EADDRINUSE || left === 0) return void check(result, "bind a sender to a port");
  }
}
