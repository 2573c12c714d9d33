import { type Address, familyOf } from "../ip/address.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import { type ConntrackEntry, parseEntry } from "./entry.ts";
import type { ConntrackFilter } from "./filter.ts";
import { type FlowTuples, peekTuples } from "./flow_tuples.ts";
import { EVERY_FLOW } from "./flow_count.ts";
import { dumpEntries } from "./request.ts";
import { deleteEntries, openConntrackSocket } from "./table.ts";

/** The most IPv4 addresses with filters of their own. For more, one list of all flows is read. */
const MOST_ADDRESSES = 2;

/**
 * Returns filters for lists that include all flows from and to the addresses. The kernel cannot filter by IPv6
 * addresses (filter.ts).
 */
export function flowQuestions(addresses: ReadonlySet<Address>): readonly ConntrackFilter[] {
  const v4 = [...addresses].filter((address) => familyOf(address) === 4);
  const hasV6 = v4.length < addresses.size;
  if (v4.length > MOST_ADDRESSES && hasV6) return EVERY_FLOW;
  return [
    ...(v4.length > MOST_ADDRESSES
      ? [{ family: 4 } as const]
      : v4.flatMap((source) => [{ original: { source } }, { reply: { source } }])),
    ...(hasV6 ? [{ family: 6 } as const] : []),
  ];
}

/** Tells whether one of the addresses began or answers a flow, before or after NAT. */
export function isFlowOf({ original, reply }: FlowTuples, addresses: ReadonlySet<Address>): boolean {
  return addresses.has(original.source) || addresses.has(reply.source);
}

/**
 * Deletes all flows from and to addresses in the calling thread's namespace, for callers without an event loop.
 *
 * @throws SyscallError, NetlinkError when the kernel refuses
 */
export function deleteFlowsOf(syscalls: Syscalls, addresses: ReadonlySet<Address>): void {
  const socket = openConntrackSocket(syscalls);
  try {
    const meant = flowQuestions(addresses).flatMap((question) =>
      socket.collect(
        dumpEntries(question),
        (): ConntrackEntry[] => [],
        (found, message) => {
          const tuples = peekTuples(message.body);
          if (tuples === undefined || isFlowOf(tuples, addresses)) found.push(parseEntry(message));
        },
      ),
    );
    deleteEntries(
      socket,
      meant.filter((entry) => isFlowOf(entry, addresses)),
    );
  } finally {
    socket.close();
  }
}
