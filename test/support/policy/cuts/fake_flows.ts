import { setImmediate as turn } from "node:timers/promises";
import type { ConntrackEntry } from "../../../../kernel/conntrack/entry.ts";
import { type ConntrackFilter, matchesFilter } from "../../../../kernel/conntrack/filter.ts";
import { type ConntrackLabels, hasLabel, labelBit } from "../../../../kernel/conntrack/labels.ts";
import type { Relabelling } from "../../../../kernel/conntrack/relabelling.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { type Address, familyOf, parseAddress } from "../../../../kernel/ip/address.ts";
import { ALLOWED_LABEL } from "../../../../policyd/policies/compile/policy_table.ts";
import type { PolicyFlows } from "../../../../policyd/policies/cuts/cuts.ts";

/** A connection in short form. */
export interface FakeFlow {
  readonly id: number;
  readonly from: string;
  readonly to: string;
  /** The destination behind a Service; `to` when absent. */
  readonly behind?: string;
  readonly protocol?: "tcp" | "udp" | "icmp";
  readonly labels?: readonly number[];
  /** Whether the kernel's entry has room for labels. */
  readonly hasRoom?: boolean;
}

/** The labels of a connection that passes. */
export const LABELLED: readonly number[] = [ALLOWED_LABEL];

/** The kernel's connections, in memory. */
export class FakeFlows implements PolicyFlows {
  readonly #flows = new Map<number, { readonly entry: ConntrackEntry; readonly hasRoom: boolean }>();
  walks = 0;
  /** The number of entries that were returned. */
  reported = 0;
  running = 0;
  refusals = 0;
  /** Is called at each turn in the middle of a walk. */
  onTurn: () => void = () => {};

  put(flow: FakeFlow): void {
    const { id, hasRoom = true } = flow;
    this.#flows.set(id, { entry: entryOf(flow), hasRoom });
  }

  remove(id: number): void {
    this.#flows.delete(id);
  }

  /** Sets a label as a rule does. */
  label(id: number, label: number): void {
    const found = this.#flows.get(id);
    if (found !== undefined) this.#write(found, found.entry.labels | labelBit(label));
  }

  has(id: number, label: number): boolean {
    return hasLabel(this.#flows.get(id)?.entry.labels ?? 0n, label);
  }

  nodeAddresses(): ReadonlySet<Address> {
    return new Set([parseAddress("192.0.2.1"), parseAddress("2001:db8::1")]);
  }

  async relabel(asked: readonly ConntrackFilter[], relabelling: Relabelling): Promise<void> {
    if (this.running > 0) throw new Error("two walks at a time");
    this.running++;
    this.walks++;
    try {
      // Entries that appear or end meanwhile may be included or not, as with the kernel.
      for (const id of this.#flows.keys()) {
        this.#decide(id, asked, relabelling);
        await turn();
        this.onTurn();
        if (this.refusals === 0) continue;
        this.refusals--;
        throw new DrawbridgeError("ERR_NETLINK", "no answer");
      }
    } finally {
      this.running--;
    }
  }

  #decide(id: number, asked: readonly ConntrackFilter[], relabelling: Relabelling): void {
    const found = this.#flows.get(id);
    if (found === undefined) return;
    const { entry, hasRoom } = found;
    if (!asked.some((filter) => matchesFilter(filter, entry))) return;
    this.reported++;
    if (!relabelling.glance(entry, () => id)) return;
    const change = relabelling.decide(entry);
    if (change === undefined) return;
    if (hasRoom) this.#write(found, (entry.labels & ~change.mask) | (change.value & change.mask));
    relabelling.changed({ key: entry, change }, hasRoom ? "done" : "no-labels");
  }

  #write(
    { entry, hasRoom }: { readonly entry: ConntrackEntry; readonly hasRoom: boolean },
    labels: ConntrackLabels,
  ): void {
    this.#flows.set(entry.id, { hasRoom, entry: { ...entry, labels } });
  }
}

function entryOf({ id, from, to, behind = to, protocol = "tcp", labels = [] }: FakeFlow): ConntrackEntry {
  const [source, destination, endpoint] = [parseAddress(from), parseAddress(to), parseAddress(behind)];
  const ports = (sourcePort: number, destinationPort: number) =>
    protocol === "icmp"
      ? { sourcePort: undefined, destinationPort: undefined, icmp: { id: 1, type: 8, code: 0 } }
      : { sourcePort, destinationPort, icmp: undefined };
  return {
    family: familyOf(source),
    original: { protocol, source, destination, ...ports(40_000, 80) },
    reply: { protocol, source: endpoint, destination: source, ...ports(8080, 40_000) },
    zone: 0,
    zoneDirection: "both",
    id,
    status: 0,
    mark: 0,
    labels: labels.reduce((all, label) => all | labelBit(label), 0n),
    timeout: 30,
    tcpState: undefined,
  };
}
