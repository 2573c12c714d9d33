import type { Tuple, WalkedPacket } from "./packet.ts";

/** A connection as conntrack has it: the tuple it began with, and the one its answers have. */
export interface Connection {
  /** The kernel's number of it, which says nothing and is nobody else's. */
  readonly id: number;
  readonly original: Tuple;
  reply: Tuple;
  readonly status: Set<"seen-reply" | "confirmed" | "snat" | "dnat">;
  /** Which halves of its translation are settled: by a rule, or as none (nf_nat_initialized). */
  readonly settled: Set<"source" | "destination">;
  mark: number;
  readonly labels: Set<number>;
}

/** The connections of one node, found by either tuple. */
export class FlowTable {
  readonly #connections = new Map<string, Connection>();
  #lastId = 0;

  get size(): number {
    return new Set(this.#connections.values()).size;
  }

  /**
   * Gives a packet its connection, a new one when there is none (nf_conntrack_in). Until an answer has been seen, packets
   * of the original direction are new (resolve_normal_ct).
   */
  track(packet: WalkedPacket): void {
    if (packet.connection !== undefined || packet.isUntracked === true || packet.state === "invalid") return;
    const key = tupleKey(packet.tuple);
    const known = this.#connections.get(key);
    const connection = known ?? newConnection(++this.#lastId, packet.tuple);
    packet.connection = connection;
    packet.direction = key === tupleKey(connection.original) ? "original" : "reply";
    if (packet.direction === "reply") connection.status.add("seen-reply");
    packet.state ??= connection.status.has("seen-reply") ? "established" : "new";
  }

  /** Remembers the packet's connection, when it leaves the node or is delivered (nf_conntrack_confirm). */
  confirm({ connection }: WalkedPacket): void {
    if (connection === undefined || connection.status.has("confirmed")) return;
    connection.status.add("confirmed");
    this.#connections.set(tupleKey(connection.original), connection);
    this.#connections.set(tupleKey(connection.reply), connection);
  }
}

/** The same packet the other way round. */
export function reversed(tuple: Tuple): Tuple {
  return {
    protocol: tuple.protocol,
    source: tuple.destination,
    sourcePort: tuple.destinationPort,
    destination: tuple.source,
    destinationPort: tuple.sourcePort,
  };
}

/**
 * What a packet of a connection looks like behind a NAT hook of one half: translated in the original direction, and
 * in the reply's with the other half undone (nf_nat_packet).
 */
export function translated(packet: WalkedPacket, half: "source" | "destination"): Tuple {
  const { tuple, connection, direction } = packet;
  if (connection === undefined) return tuple;
  const target = reversed(direction === "reply" ? connection.original : connection.reply);
  return half === "source"
    ? { ...tuple, source: target.source, sourcePort: target.sourcePort }
    : { ...tuple, destination: target.destination, destinationPort: target.destinationPort };
}

function newConnection(id: number, original: Tuple): Connection {
  return { id, original, reply: reversed(original), status: new Set(), settled: new Set(), mark: 0, labels: new Set() };
}

function tupleKey({ protocol, source, sourcePort, destination, destinationPort }: Tuple): string {
  return `${protocol} ${typeof source} ${source} ${sourcePort} ${destination} ${destinationPort}`;
}
