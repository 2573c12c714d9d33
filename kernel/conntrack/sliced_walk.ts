import { setImmediate as turn } from "node:timers/promises";
import type { ReceivedMessage } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import type { BackgroundCalls } from "../syscall/background_calls.ts";
import type { FileReadCalls } from "../syscall/file_calls.ts";
import type { ConntrackFilter } from "./filter.ts";
import { cheapestLists, flowCount } from "./flow_count.ts";
import { dumpEntries } from "./request.ts";

/** The length of a slice, after which other work gets its turn. */
const SLICE_MILLISECONDS = 2;

/** The callbacks of a walk through the table. An exception ends the walk. */
export interface SlicedVisit {
  /** Receives each entry's message, which is valid only during the call. */
  see(message: ReceivedMessage): void;
  /** Runs at the end of each slice, before other work gets its turn. */
  endSlice?(): void;
}

/**
 * Goes through the table in slices of some milliseconds, between which other work gets its turn.
 *
 * A flow that lives throughout is seen, at times twice, unless the kernel resizes its table meanwhile. With a filter
 * fewer entries arrive, but the kernel looks for the next match without a pause: about 10 ms for 100,000 others.
 *
 * With few entries in the table, the kernel goes through all buckets before it answers at all (7 to 12 ms for 262,144
 * of them, which all namespaces of a machine share). That wait does not block the event loop.
 *
 * @param socket used only by this walk: nothing else may use it during the walk, or after a failed one
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
  // After an exception the rest, which may be a million entries, is not read: the socket is not used again.
  for (let step = datagrams.next(); step.done !== true; step = datagrams.next()) {
    for (const message of step.value) {
      visit.see(message);
      if (performance.now() < end) continue;
      visit.endSlice?.();
      await turn();
      end = performance.now() + SLICE_MILLISECONDS;
    }
  }
  visit.endSlice?.();
}

/**
 * Goes through the flows that one of the filters matches, as {@link walkInSlices} does, by the cheapest lists. It may
 * show others too, and a flow that several filters match several times.
 *
 * @throws SyscallError, NetlinkError (by the promise) when the kernel refuses
 */
export async function walkMatches(
  socket: NetlinkSocket,
  asked: readonly ConntrackFilter[],
  visit: SlicedVisit,
  calls: BackgroundCalls & FileReadCalls,
): Promise<void> {
  for (const list of cheapestLists(asked, () => flowCount(calls))) await walkInSlices(socket, list, visit, calls);
}
