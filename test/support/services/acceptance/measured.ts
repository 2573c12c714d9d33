import type { ConntrackEntry } from "../../../../kernel/conntrack/entry.ts";
import { type Address, type Family } from "../../../../kernel/ip/address.ts";
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
