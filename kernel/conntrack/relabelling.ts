import type { ReceivedMessage } from "../netlink/message.ts";
import { type ConntrackEntry, parseEntry } from "./entry.ts";
import type { ConntrackFilter } from "./filter.ts";
import { type FlowTuples, peekId, peekTuples } from "./flow_tuples.ts";
import type { ConntrackSockets } from "./sockets.ts";
import { walkMatches } from "./sliced_walk.ts";
import { changeLabelsOf, type ConntrackOutcome, type LabelChange } from "./table.ts";

/** Decides about the labels of flows. */
export interface Relabelling {
  /** Tells whether a flow is to be read and decided at all. @param id returns the entry's ID, 0 for none */
  glance(flow: FlowTuples, id: () => number): boolean;
  /** Returns the change of the labels; undefined leaves them. */
  decide(entry: ConntrackEntry): LabelChange["change"] | undefined;
  /** Receives the outcome of each change. */
  changed(change: LabelChange<ConntrackEntry>, outcome: ConntrackOutcome): void;
}

/** The number of requests sent to the kernel at a time. */
const BATCH = 32;

/**
 * Goes through flows in slices and changes the labels of those that the relabelling decides about.
 *
 * Changes decided in a slice are made before other work gets its turn, so none is based on an outdated decision.
 *
 * @param sockets two of them are used, because no request may come between a list and its end
 * @param asked the filters to list flows by; an entry that several match may be decided several times
 * @throws SyscallError, NetlinkError (by the promise) when the kernel refuses; earlier changes stay
 */
export function relabelFlows(
  sockets: ConntrackSockets,
  asked: readonly ConntrackFilter[],
  relabelling: Relabelling,
): Promise<void> {
  return sockets.with((list) =>
    sockets.with(async (labels) => {
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
      await walkMatches(list, asked, { see, endSlice: carryOut }, sockets.calls);
    }),
  );
}
