import type { ReceivedMessage } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import type { BackgroundCalls } from "../syscall/background_calls.ts";
import type { ConntrackEntry } from "./entry.ts";
import { parseEntry } from "./entry.ts";
import type { ConntrackFilter } from "./filter.ts";
import type { FlowTuples } from "./flow_tuples.ts";
import { peekId, peekTuples } from "./flow_tuples.ts";
import { walkInSlices } from "./sliced_walk.ts";
import type { ConntrackOutcome, LabelChange } from "./table.ts";
import { changeLabelsOf } from "./table.ts";

/** What decides about the labels of flows. */
export interface Relabelling {
  /** Whether a flow is to be read and decided at all. @param id of the entry, 0 for none */
  glance(flow: FlowTuples, id: () => number): boolean;
  /** What becomes of the labels; undefined leaves them. */
  decide(entry: ConntrackEntry): LabelChange["change"] | undefined;
  /** Told what became of each change. */
  changed(change: LabelChange<ConntrackEntry>, outcome: ConntrackOutcome): void;
}

/** As many requests go to the kernel at a time. */
const BATCH = 32;

/**
 * Goes through flows in slices, and changes the labels of those that are meant.
 *
 * What is decided in a slice is done before anything else gets its turn, so nothing is done by what was true before.
 *
 * @param open opens a socket; two are used, since no request may come between a list and its end
 * @param asked what the kernel is asked for, one list each; an entry of several is decided several times
 * @param calls as {@link walkInSlices} has them
 * @throws SyscallError, NetlinkError (by the promise) when the kernel refuses; what was changed stays so
 */
export async function relabelFlows(
  open: () => NetlinkSocket,
  asked: readonly ConntrackFilter[],
  relabelling: Relabelling,
  calls?: BackgroundCalls,
): Promise<void> {
  const sockets: NetlinkSocket[] = [];
  const opened = (): NetlinkSocket => {
    const socket = open();
    sockets.push(socket);
    return socket;
  };
  try {
    const [list, labels] = [opened(), opened()];
    const decided: LabelChange<ConntrackEntry>[] = [];
    const carryOut = (): void => {
      const changes = decided.splice(0);
      for (const [index, outcome] of changeLabelsOf(labels, changes).entries()) {
        const change = changes[index];
        if (change !== undefined) relabelling.changed(change, outcome);
      }
    };
    const see = (message: ReceivedMessage): void => {
      const tuples = peekTuples(message.body);
      if (tuples !== undefined && !relabelling.glance(tuples, () => peekId(message.body))) return;
      const entry = parseEntry(message);
      const change = relabelling.decide(entry);
      if (change === undefined) return;
      decided.push({ key: entry, change });
      if (decided.length === BATCH) carryOut();
    };
    for (const filter of asked) await walkInSlices(list, filter, { see, endSlice: carryOut }, calls);
  } finally {
    for (const socket of sockets) socket.close();
  }
}
