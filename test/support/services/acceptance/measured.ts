import type { ConntrackEntry } from "../../../../kernel/conntrack/entry.ts";
import { type Address, type Family, formatAddress } from "../../../../kernel/ip/address.ts";
import { entryNode, type NodePlace, type Place } from "./places.ts";
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

/** The outcome of a connection. */
export interface Result {
  readonly shot: Shot;
  readonly reached: boolean;
  readonly seenBy: Place | undefined;
  readonly seenSource: Address | undefined;
  readonly why: string;
}

/** The endpoints that clients reached, by {@link clientKey}. */
export type Choices = ReadonlyMap<string, Place | undefined>;

/** Everything that was measured in one lab, which is all that rows are compared with. */
export interface Measured {
  readonly results: readonly Result[];
  /** The endpoints that clients of Services with affinity reached by their first connection, by {@link stickyKey}. */
  readonly firsts: ReadonlyMap<string, Place | undefined>;
  readonly refusals: readonly Refusal[];
  readonly tracked: Readonly<Record<NodePlace, readonly ConntrackEntry[]>>;
  /** The destinations of the packets that the nodes have sent out. */
  readonly sent: ReadonlySet<string>;
  /** The number of first packets that arrived at each endpoint while none should. */
  readonly strayArrivals: ReadonlyMap<Place, number>;
  /** The number of packets that rules with a reason have dropped meanwhile, on both nodes. */
  readonly drops: ReadonlyMap<string, number>;
  /** The nodes' TCP ports at which a program listens. */
  readonly listening: Readonly<Record<NodePlace, ReadonlySet<number>>>;
  readonly tables: Readonly<Record<NodePlace, string>>;
  /** The status by URL; undefined without an answer. */
  readonly health: ReadonlyMap<string, number | undefined>;
  /** The measurements for single demands, by the row's ID and the family. */
  readonly special: ReadonlyMap<string, Special>;
}

export type Special =
  | { readonly type: "chosen anew"; readonly before: Choices; readonly after: Choices }
  /** The remaining milliseconds of clients' entries, and the longest time since they were restarted. */
  | { readonly type: "window restarts"; readonly left: readonly number[]; readonly elapsed: number }
  | { readonly type: "goes on"; readonly failures: readonly string[]; readonly last: Choices };

export function specialKey(row: Pick<Row, "id">, family: Family): string {
  return `${row.id} IPv${family}`;
}

export function clientKey({ from, transport }: Pick<Shot, "from" | "transport">): string {
  return `${from} ${transport}`;
}

/** Returns the key of a choice of endpoint, which is kept by node, client, protocol and family. */
export function stickyKey(shot: Shot): string | undefined {
  const { probe, family } = shot;
  if (!("sticky" in probe) || probe.sticky === undefined) return undefined;
  return `${probe.sticky} at ${entryNode(shot.from, probe.to)}: ${clientKey(shot)} IPv${family}`;
}

/** Returns the URL at which a node answers for the health of a Service's endpoints. */
export function healthUrl(address: Address, port: number): string {
  return `http://${typeof address === "bigint" ? `[${formatAddress(address)}]` : formatAddress(address)}:${port}/healthz`;
}
