import { setImmediate as turn } from "node:timers/promises";
import type { ReceivedMessage } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import type { BackgroundCalls } from "../syscall/background_calls.ts";
import type { ConntrackFilter } from "./filter.ts";
import { dumpEntries } from "./request.ts";

/** After so long other things get their turn. */
const SLICE_MILLISECONDS = 2;

/** What is done on a walk through the table. What it throws ends the walk. */
export interface SlicedVisit {
  /** Told each entry's message, which is valid during the call alone. */
  see(message: ReceivedMessage): void;
  /** A slice is over: whatever else happens next, happens behind this. */
  endSlice?(): void;
}

/**
 * Goes through the table in slices of some milliseconds, between which other things get their turn.
 *
 * A flow that lives throughout is told, at times twice, unless the kernel resizes its table meanwhile. A filter saves
 * being told, but the kernel looks for the next entries that match without a pause: some 10 ms through 100,000 others.
 *
 * Of a table with few entries the kernel goes through all buckets before it answers at all (7 to 12 ms for 262,144 of
 * them, which all namespaces of a machine share): that keeps nobody waiting.
 *
 * @param socket of this walk alone: while it lasts, and once it has failed, nothing else may use it
 * @throws SyscallError, NetlinkError (by the promise) when the kernel refuses
 */
export async function walkInSlices(
  socket: NetlinkSocket,
  filter: ConntrackFilter,
  visit: SlicedVisit,
  calls: BackgroundCalls,
): Promise<void> {
  const datagrams = await socket.datagramsInBackground(dumpEntries(filter), calls);
  let end = performance.now() + SLICE_MILLISECONDS;
  for (const messages of datagrams) {
    for (const message of messages) {
      visit.see(message);
      if (performance.now() < end) continue;
      visit.endSlice?.();
      await turn();
      end = performance.now() + SLICE_MILLISECONDS;
    }
  }
  visit.endSlice?.();
}
