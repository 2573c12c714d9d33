import { setImmediate as turn } from "node:timers/promises";
import type { ReceivedMessage } from "../netlink/message.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import type { ConntrackEntry } from "./entry.ts";
import { parseEntry } from "./entry.ts";
import type { ConntrackFilter } from "./filter.ts";
import { matchesFilter } from "./filter.ts";
import type { FlowTuples } from "./flow_tuples.ts";
import { peekTuples } from "./flow_tuples.ts";
import { walkInSlices } from "./sliced_walk.ts";
import { deleteEntries, openConntrackSocket } from "./table.ts";

/** Deleting so many takes some 3 ms, after which other things get their turn. */
const SLICE = 64;

/**
 * Deletes flows of the namespace the calling thread is in, at the cost of a glance at each the kernel tells, while the
 * event loop goes on.
 *
 * @param asked what the kernel is asked for, one list each; an entry of several is judged several times
 * @returns how many there were
 * @throws SyscallError, NetlinkError (by the promise) when the kernel refuses
 */
export async function deleteFlows(
  syscalls: Syscalls,
  asked: readonly ConntrackFilter[],
  isMeant: (flow: FlowTuples) => boolean,
): Promise<number> {
  if (asked.length === 0) return 0;
  const socket = openConntrackSocket(syscalls);
  try {
    const meant: ConntrackEntry[] = [];
    for (const filter of asked) {
      const see = (message: ReceivedMessage): void => {
        const tuples = peekTuples(message.body);
        if (tuples !== undefined && !isMeant(tuples)) return;
        const entry = parseEntry(message);
        if (matchesFilter(filter, entry) && isMeant(entry)) meant.push(entry);
      };
      await walkInSlices(socket, filter, { see });
    }
    let deleted = 0;
    for (let start = 0; start < meant.length; start += SLICE) {
      if (start > 0) await turn();
      const outcomes = deleteEntries(socket, meant.slice(start, start + SLICE));
      deleted += outcomes.filter((outcome) => outcome === "done").length;
    }
    return deleted;
  } finally {
    socket.close();
  }
}
