import type { Address } from "../ip/address.ts";
import { setImmediate as turn } from "node:timers/promises";
import type { ReceivedMessage } from "../netlink/message.ts";
import type { ConntrackEntry } from "./entry.ts";
import type { ConntrackFilter } from "./filter.ts";
import type { FlowTuples } from "./flow_tuples.ts";
import type { ConntrackSockets } from "./sockets.ts";
import { walkMatches } from "./sliced_walk.ts";
import { deleteEntries, meantEntry } from "./table.ts";

/** The number of flows to delete before other work gets its turn: deleting them takes about 3 ms. */
const SLICE = 64;

/**
 * Deletes flows while the event loop goes on. Of most flows that the kernel lists it reads only the tuples.
 *
 * @param asked the filters to list flows by; `isMeant` may see an entry several times when several filters match it
 * @param isMeant decides which of the listed flows are deleted
 * @returns the number of deleted flows
 * @throws SyscallError, NetlinkError (by the promise) when the kernel refuses
 */
export function deleteFlows(
  sockets: ConntrackSockets,
  asked: readonly ConntrackFilter[],
  isMeant: (flow: FlowTuples) => boolean,
): Promise<number> {
  if (asked.length === 0) return Promise.resolve(0);
  return sockets.with(async (socket) => {
    const meant: ConntrackEntry[] = [];
    const see = (message: ReceivedMessage): void => {
      const entry = meantEntry(message, asked, isMeant);
      if (entry !== undefined) meant.push(entry);
    };
    await walkMatches(socket, asked, { see }, sockets.calls);
    let deleted = 0;
    for (let start = 0; start < meant.length; start += SLICE) {
      if (start > 0) await turn();
      const outcomes = deleteEntries(socket, meant.slice(start, start + SLICE));
      deleted += outcomes.filter((outcome) => outcome === "done").length;
    }
    return deleted;
  });
}

/** The kernel's flows in the node's network namespace. */
export interface Flows {
  /**
   * Deletes flows.
   *
   * @param asked filters for the kernel, one list each
   * @returns the number of deleted flows
   * @throws DrawbridgeError (by the promise) when the kernel refuses
   */
  delete(asked: readonly ConntrackFilter[], isMeant: (flow: FlowTuples) => boolean): Promise<number>;
  /** Returns the node's own addresses. @throws DrawbridgeError when the kernel refuses */
  nodeAddresses(): ReadonlySet<Address>;
}
