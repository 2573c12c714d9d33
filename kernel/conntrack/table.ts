import { withSocket, NetlinkSocket } from "../netlink/socket.ts";
import { NETLINK_NETFILTER } from "../netlink/netfilter_message.ts";
import { NetlinkError } from "../netlink/error.ts";
import type { ReceivedMessage, Request } from "../netlink/message.ts";
import type { FileReadCalls } from "../syscall/file_calls.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import { type ConntrackEntry, type ConntrackKey, parseEntry } from "./entry.ts";
import { type ConntrackFilter, type Masked, matchesFilter } from "./filter.ts";
import { cheapestLists, flowCount } from "./flow_count.ts";
import { type FlowTuples, peekTuples } from "./flow_tuples.ts";
import type { ConntrackLabels } from "./labels.ts";
import { changeLabels, deleteEntry, dumpEntries } from "./request.ts";

/** The outcome of one change: "absent" when the entry is gone, "no-labels" when it has no room for labels. */
export type ConntrackOutcome = "done" | "absent" | "no-labels";

/**
 * Opens a socket for the connection tracking table of the calling thread's namespace.
 *
 * @throws SyscallError when the kernel refuses it
 */
export function openConntrackSocket(syscalls: Syscalls): NetlinkSocket {
  return new NetlinkSocket(syscalls, NETLINK_NETFILTER);
}

/**
 * Visits all entries one by one. The memory used does not grow with the table.
 *
 * A flow that lives throughout is visited, at times twice, unless the kernel resizes its table meanwhile.
 *
 * @param visit must not use the socket
 * @throws NetlinkError when the kernel refuses
 */
export function visitEntries(socket: NetlinkSocket, visit: (entry: ConntrackEntry) => void): void {
  socket.collect(
    dumpEntries(),
    () => visit,
    (see, message) => see(parseEntry(message)),
  );
}

/**
 * Deletes entries.
 *
 * @returns the outcomes, in the order of the keys
 * @throws NetlinkError when the kernel refuses one for any reason but its absence; the other deletions have been made
 */
export function deleteEntries(socket: NetlinkSocket, keys: readonly ConntrackKey[]): readonly ConntrackOutcome[] {
  return changeAll(socket, keys.map(deleteEntry));
}

/**
 * Deletes flows, for callers without an event loop.
 *
 * @param asked the filters to list flows by
 * @param isMeant decides which of the listed flows are deleted
 * @throws SyscallError, NetlinkError when the kernel refuses
 */
export function deleteFlowsAtOnce(
  syscalls: Syscalls & FileReadCalls,
  asked: readonly ConntrackFilter[],
  isMeant: (flow: FlowTuples) => boolean,
): void {
  if (asked.length === 0) return;
  withSocket(openConntrackSocket(syscalls), (socket) => {
    const add = (meant: ConntrackEntry[], message: ReceivedMessage): void => {
      const entry = meantEntry(message, asked, isMeant);
      if (entry !== undefined) meant.push(entry);
    };
    const lists = cheapestLists(asked, () => flowCount(syscalls));
    const meant = lists.flatMap((list) => socket.collect(dumpEntries(list), (): ConntrackEntry[] => [], add));
    deleteEntries(socket, meant);
  });
}

/** Returns the entry of a listed flow that is meant. Of most flows only the tuples are read. */
export function meantEntry(
  message: ReceivedMessage,
  asked: readonly ConntrackFilter[],
  isMeant: (flow: FlowTuples) => boolean,
): ConntrackEntry | undefined {
  const tuples = peekTuples(message.body);
  if (tuples !== undefined && !isMeant(tuples)) return undefined;
  const entry = parseEntry(message);
  return asked.some((filter) => matchesFilter(filter, entry)) && isMeant(entry) ? entry : undefined;
}

/** A change of the labels of one entry. */
export interface LabelChange<K extends ConntrackKey = ConntrackKey> {
  readonly key: K;
  readonly change: Masked<ConntrackLabels>;
}

/**
 * Sets and clears labels of entries.
 *
 * @returns the outcomes, in the order of the changes
 * @throws NetlinkError as {@link deleteEntries}
 */
export function changeLabelsOf(socket: NetlinkSocket, changes: readonly LabelChange[]): readonly ConntrackOutcome[] {
  return changeAll(
    socket,
    changes.map(({ key, change }) => changeLabels(key, change)),
  );
}

function changeAll(socket: NetlinkSocket, requests: readonly Request[]): readonly ConntrackOutcome[] {
  return socket.batch(requests).map(({ error }) => outcomeOf(error));
}

function outcomeOf(error: NetlinkError | undefined): ConntrackOutcome {
  if (error === undefined) return "done";
  if (error.errnoName === "ENOENT") return "absent";
  if (error.errnoName === "ENOSPC") return "no-labels";
  throw error;
}
