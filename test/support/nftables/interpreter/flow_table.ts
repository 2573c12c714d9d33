import type { Tuple, WalkedPacket } from "./packet.ts";

/** A connection as conntrack has it: the tuple of its first packet, and the tuple of its answers. */
export interface Connection {
  /** The kernel's unique number of it, without a meaning. */
  readonly id: number;
  readonly original: Tuple;
  reply: Tuple;
  readonly status: Set<"seen-reply" | "confirmed" | "snat" | "dnat">;
  /** The halves of its translation that are settled, by a rule or as untranslated (nf_nat_initialized). */
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
   * Assigns a packet to its connection, or to a new one (nf_conntrack_in). Until an answer has been seen, packets of
   * the original direction are new (resolve_normal_ct).
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

  /** Stores the packet's connection when the packet leaves the node or is delivered (nf_conntrack_confirm). */
  confirm({ connection }: WalkedPacket): void {
    if (connection === undefined || connection.status.has("confirmed")) return;
    connection.status.add("confirmed");
    this.#connections.set(tupleKey(connection.original), connection);
    this.#connections.set(tupleKey(connection.reply), connection);
  }
}

/** Returns the tuple of a packet in the opposite direction. */
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
 * Returns the tuple of a connection's packet after a NAT hook of one half: translated in the original direction, and in
 * the reply's with the other half undone (nf_nat_packet).
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
