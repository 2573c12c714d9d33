import type { ConntrackEntry } from "../../../../kernel/conntrack/entry.ts";
import type { Address, Family } from "../../../../kernel/ip/address.ts";
import { formatAddress } from "../../../../kernel/ip/address.ts";
import type { NodePlace, Place } from "./places.ts";
import { entryNode } from "./places.ts";
import type { Probe, Row, Transport } from "./row.ts";
import type { Refusal } from "./unreachable_messages.ts";

/** One connection of a row. */
export interface Shot {
  readonly row: Row;
  readonly probe: Probe;
  readonly from: Place;
  readonly transport: Transport;
  readonly family: Family;
}

/** What became of it. */
export interface Result {
  readonly shot: Shot;
  readonly reached: boolean;
  readonly seenBy: Place | undefined;
  readonly seenSource: Address | undefined;
  readonly why: string;
}

/** What clients met, by {@link clientKey}. */
export type Choices = ReadonlyMap<string, Place | undefined>;

/** Everything that was measured in one lab; rows are judged by it alone. */
export interface Measured {
  readonly results: readonly Result[];
  /** What clients of Services with affinity met at their first connection, by {@link stickyKey}. */
  readonly firsts: ReadonlyMap<string, Place | undefined>;
  readonly refusals: readonly Refusal[];
  readonly tracked: Readonly<Record<NodePlace, readonly ConntrackEntry[]>>;
  /** Destinations of what the nodes have let out. */
  readonly sent: ReadonlySet<string>;
  /** How many packets have begun something at each endpoint while nobody should have come to one. */
  readonly strayArrivals: ReadonlyMap<Place, number>;
  /** Packets that rules with a reason have dropped meanwhile, on both nodes. */
  readonly drops: ReadonlyMap<string, number>;
  /** The nodes' ports of TCP at which somebody listens. */
  readonly listening: Readonly<Record<NodePlace, ReadonlySet<number>>>;
  readonly tables: Readonly<Record<NodePlace, string>>;
  /** The status by URL; undefined without an answer. */
  readonly health: ReadonlyMap<string, number | undefined>;
  /** What was measured for single demands, by the row's ID and the family. */
  readonly special: ReadonlyMap<string, Special>;
}

export type Special =
  | { readonly type: "chosen anew"; readonly before: Choices; readonly after: Choices }
  /** Milliseconds that clients' entries have left, and how long ago at most they were begun anew. */
  | { readonly type: "window restarts"; readonly left: readonly number[]; readonly elapsed: number }
  | { readonly type: "goes on"; readonly failures: readonly string[]; readonly last: Choices };

export function specialKey(row: Pick<Row, "id">, family: Family): string {
  return `${row.id} IPv${family}`;
}

export function clientKey({ from, transport }: Pick<Shot, "from" | "transport">): string {
  return `${from} ${transport}`;
}

/** Who shares a memory of a Service's endpoint: it is kept by node, client, protocol and family. */
export function stickyKey(shot: Shot): string | undefined {
  const { probe, family } = shot;
  if (!("sticky" in probe) || probe.sticky === undefined) return undefined;
  return `${probe.sticky} at ${entryNode(shot.from, probe.to)}: ${clientKey(shot)} IPv${family}`;
}

/** Where a node answers for the health of a Service's endpoints. */
export function healthUrl(address: Address, port: number): string {
  return `http://${typeof address === "bigint" ? `[${formatAddress(address)}]` : formatAddress(address)}:${port}/healthz`;
}
