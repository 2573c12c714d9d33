import { EVERY_FLOW } from "../../../kernel/conntrack/flow_count.ts";
import { deleteFlows } from "../../../kernel/conntrack/flow_deletion.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import type { ConntrackSockets } from "../../../kernel/conntrack/sockets.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { readTextFile } from "../../../kernel/file.ts";
import { type Address, formatAddress } from "../../../kernel/ip/address.ts";
import { isLoopback } from "../../../kernel/ip/special.ts";
import type { Clock } from "../../lib/clock.ts";
import { ControlLoop } from "../../lib/control_loop.ts";
import type { Ruleset } from "../../ruleset/ruleset.ts";
import type { NoticeSink } from "../../events/notice.ts";
import type { Logger } from "../../log/logger.ts";
import { brakingHooks, crowdingHooks, POLICY_TABLE } from "../compile/policy_table.ts";
import { crowdedElement } from "../compile/table_elements.ts";
import type { PolicyFollower } from "../live/policy_follower.ts";
import { type CountedPod, fairShare, isBeyond, type OwnAddresses, ownerOf } from "./fair_share.ts";

const SYSCTLS = "/proc/sys/net/netfilter";

/** The node's table of connections, as far as limits need it. A failure throws DrawbridgeError. */
export interface ConnectionTable {
  /** The number of connections. */
  size(): number;
  /** The most connections; 0 for no bound, as in the kernel. */
  capacity(): number;
  /** Goes through all connections and deletes those meant. May ask twice about one. @returns the number deleted */
  sweep(isMeant: (flow: FlowTuples) => boolean): Promise<number>;
}

export interface ConnectionLimitParts {
  readonly table: ConnectionTable;
  readonly ruleset: Pick<Ruleset, "claim" | "provide">;
  /** The pods of this node. */
  readonly pods: () => Iterable<CountedPod>;
  /** Whether an address is in a pod network of any node. */
  readonly isPodAddress: (address: Address) => boolean;
  /** The node's own addresses. @throws DrawbridgeError when the kernel refuses */
  readonly nodeAddresses: () => ReadonlySet<Address>;
  readonly clock: Clock;
  readonly logger: Pick<Logger, "warn" | "info">;
  readonly events: NoticeSink;
  /** The most connections of one pod; undefined for no bound but its share of a full table. */
  readonly limit: number | undefined;
}

/**
 * Milliseconds between two checks of the number of connections: for an empty table; for one half full, or if a pod's
 * limit requires it; and for one more than half full. A table may fill at any moment: however full it is at one check,
 * it takes two and a half times its size a second to pass the brake before the next one.
 */
const CALM_CHECK_MILLISECONDS = 300;
const CHECK_MILLISECONDS = 100;
const HASTY_CHECK_MILLISECONDS = 25;
const HALF = 1 / 2;
/** A walk through the table is expensive, so the pause after it is at least this many times as long as the walk. */
const REST = 4;
/** A pod at or below this share of its limit may begin connections again. */
const RELEASE = 3 / 4;
/** Above this filling pods have shares, which together with all other connections come to {@link ROOM} of the table. */
const FULL = 13 / 16;
const ROOM = 3 / 4;
/** However much of the table is not of pods, the least shares of all pods together come to this part of it. */
const LEAST = 1 / 8;
/** From the first filling on, until the table falls below the second, pods begin connections at a bounded rate. */
const BRAKE = { on: 3 / 4, off: 5 / 8 } as const;

/**
 * Keeps single pods from filling the node's table of connections, with an accomplice outside who answers: then the
 * kernel cannot make room by itself, and nobody else could connect. A pod with too many begins no further connections,
 * none begin to it from outside, and those beyond its limit are deleted.
 *
 * The limit is a pod's share: once the table is full, the largest users give until there is room, counting all
 * addresses of a pod together. It stays until the pod has clearly less.
 *
 * The kernel could count by itself (`ct count`), but then it goes through all connections of a pod for each new one: 1
 * ms at 10,000 of them, which is an attack of its own. Here a new connection costs a lookup in a set while a pod has
 * too many, and the table is walked only while that matters. A rate, which the kernel does enforce by itself, holds
 * pods back meanwhile.
 */
export class ConnectionLimit implements PolicyFollower {
  readonly #parts: ConnectionLimitParts;
  /** The pods that have too many, by their keys. */
  readonly #crowded = new Map<string, CountedPod>();
  /** The connections that each pod may have; undefined while no pod has too many. */
  #share: number | undefined;
  #isBraking = false;
  #pause = CHECK_MILLISECONDS;
  readonly #loop: ControlLoop;
  #hasFailed = false;
  #deletions = 0;

  constructor(parts: ConnectionLimitParts) {
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#turn() });
  }

  async prepare(): Promise<void> {
    this.#loop.within(CHECK_MILLISECONDS);
  }

  stop(): void {
    void this.#loop.stop();
  }

  /** The present problems, for the status. */
  problems(): readonly string[] {
    return [...this.#crowded.values()].map(
      (pod) => `${nameOf(pod)} has too many connections: no further ones begin (connectionLimit)`,
    );
  }

  /** Checks once. Settles when everything is done. */
  async check(): Promise<void> {
    const { logger, table, limit } = this.#parts;
    try {
      const [size, capacity] = [table.size(), table.capacity()];
      this.#pause = capacity === 0 || limit !== undefined ? CHECK_MILLISECONDS : pauseAt(size / capacity);
      if (capacity > 0 && size > capacity * HALF) this.#pause = HASTY_CHECK_MILLISECONDS;
      this.#brake(size, capacity);
      // A table without a bound has no shares.
      const isFull = capacity > 0 && size > capacity * FULL;
      if (capacity === 0) this.#share = undefined;
      const mayBeBeyond = limit !== undefined && size > limit * RELEASE;
      if (isFull || mayBeBeyond || this.#crowded.size > 0) await this.#enforce(isFull ? capacity : undefined, size);
      this.#hasFailed = false;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      if (!this.#hasFailed) logger.warn("connections of pods cannot be counted", { error: error.message });
      this.#hasFailed = true;
    }
  }

  /** Bounds the rate at which pods begin connections while the table is nearly full. */
  #brake(size: number, capacity: number): void {
    const isBraking = capacity > 0 && size > capacity * (this.#isBraking ? BRAKE.off : BRAKE.on);
    if (isBraking === this.#isBraking) return;
    this.#isBraking = isBraking;
    const chains = isBraking ? brakingHooks : [];
    this.#parts.ruleset.provide("connection brake", { table: POLICY_TABLE, sets: [], chains }, "urgent");
    const fields = { connections: size, capacity };
    if (isBraking)
      this.#parts.logger.warn(
        "the table of connections is nearly full: pods begin connections at a limited rate",
        fields,
      );
    else this.#parts.logger.info("the table of connections has room again", fields);
  }

  /** @param full the capacity of a full table */
  async #enforce(full: number | undefined, size: number): Promise<void> {
    const { table } = this.#parts;
    const pods = new Map([...this.#parts.pods()].map((pod) => [pod.key, pod]));
    const keys = new Map([...pods.values()].flatMap(({ key, addresses }) => addresses.map((one) => [one, key])));
    const counts = new Map([...pods.keys()].map((key) => [key, 0]));
    const senders = new Map<Address, string | undefined>(keys);
    const senderOf = (address: Address): string | undefined => {
      if (senders.has(address)) return senders.get(address);
      const key = this.#parts.isPodAddress(address) ? formatAddress(address) : undefined;
      senders.set(address, key);
      if (key !== undefined) pods.set(key, { key, name: undefined, addresses: [address] });
      return key;
    };
    const nodeAddresses = this.#parts.nodeAddresses();
    const own: OwnAddresses = {
      podOf: (address) => keys.get(address),
      senderOf,
      isNode: (address) => isLoopback(address) || nodeAddresses.has(address),
    };
    await table.sweep((flow) => {
      const owner = ownerOf(flow, own);
      if (owner !== undefined) counts.set(owner, (counts.get(owner) ?? 0) + 1);
      return false;
    });
    if (full !== undefined) this.#share = shareOf([...counts.values()], full, size);
    const limit = Math.min(this.#share ?? Number.POSITIVE_INFINITY, this.#parts.limit ?? Number.POSITIVE_INFINITY);
    this.#setCrowded(pods, counts, limit);
    if (this.#crowded.size === 0) this.#share = undefined;
    if ([...counts.values()].every((count) => count <= limit)) return;
    const salt = ++this.#deletions;
    await table.sweep((flow) => {
      const owner = ownerOf(flow, own);
      const count = owner === undefined ? 0 : (counts.get(owner) ?? 0);
      return count > limit && isBeyond(flow, limit / count, salt);
    });
  }

  #setCrowded(pods: ReadonlyMap<string, CountedPod>, counts: ReadonlyMap<string, number>, limit: number): void {
    const { ruleset, logger } = this.#parts;
    const before = new Map(this.#crowded);
    for (const key of before.keys()) {
      if (!pods.has(key) || (counts.get(key) ?? 0) <= limit * RELEASE) this.#crowded.delete(key);
    }
    for (const [key, pod] of pods) if ((counts.get(key) ?? 0) > limit) this.#crowded.set(key, pod);
    const chains = this.#crowded.size === 0 ? [] : crowdingHooks;
    ruleset.provide("connection limit", { table: POLICY_TABLE, sets: [], chains }, "urgent");
    const addresses = new Set([...this.#crowded.values()].flatMap((pod) => pod.addresses));
    ruleset.claim("connection limit", [...addresses].map(crowdedElement), "urgent");
    for (const [key, pod] of this.#crowded) {
      if (!before.has(key)) this.#tell(pod, counts.get(key) ?? 0, limit);
    }
    for (const [key, pod] of before) {
      if (!this.#crowded.has(key))
        logger.info("pod may begin connections again", { pod: nameOf(pod) }, pod.name?.namespace);
    }
  }

  #tell(pod: CountedPod, connections: number, limit: number): void {
    const { logger, events } = this.#parts;
    const addresses = pod.addresses.map(formatAddress).join(", ");
    const fields = { pod: nameOf(pod), addresses, connections, limit };
    logger.warn("pod has too many connections: no further ones begin", fields, pod.name?.namespace);
    if (pod.name === undefined) return;
    const { namespace, name, uid } = pod.name;
    events.tell({
      regarding: { kind: "Pod", key: `${namespace}/${name}`, uid },
      reason: "TooManyConnections",
      note:
        `Pod ${namespace}/${name}: it has too many connections for its node (connectionLimit): no further ones begin that count for ` +
        "it until it has fewer, and those beyond its share were ended; have it close or reuse them, or raise conntrackMin",
    });
  }

  async #turn(): Promise<number> {
    const { clock } = this.#parts;
    const began = clock.now();
    await this.check();
    return Math.max(this.#pause, (clock.now() - began) * REST);
  }
}

/** Returns the table of this thread's network namespace; its capacity is the machine's. */
export function kernelConnectionTable(sockets: ConntrackSockets): ConnectionTable {
  const read = (name: string): number => {
    const text = readTextFile(sockets.calls, `${SYSCTLS}/${name}`, 32);
    if (text !== undefined) return Number(text);
    throw new DrawbridgeError("ERR_UNAVAILABLE", `${SYSCTLS}/${name}: missing; is nf_conntrack loaded?`);
  };
  return {
    size: () => read("nf_conntrack_count"),
    capacity: () => read("nf_conntrack_max"),
    sweep: (isMeant) => deleteFlows(sockets, EVERY_FLOW, isMeant),
  };
}

/** Returns the milliseconds until the next check of a table with this filling, which is at most one half. */
function pauseAt(filling: number): number {
  const spread = CALM_CHECK_MILLISECONDS - CHECK_MILLISECONDS;
  return Math.max(CHECK_MILLISECONDS, Math.round(CALM_CHECK_MILLISECONDS - (spread * filling) / HALF));
}

/** Returns how many connections each pod may have in a full table. */
function shareOf(counts: readonly number[], capacity: number, size: number): number {
  const ofPods = counts.reduce((sum, count) => sum + count, 0);
  const others = Math.max(0, size - ofPods);
  const least = Math.floor((capacity * LEAST) / Math.max(1, counts.length));
  return Math.max(least, fairShare(counts, capacity * ROOM - others));
}

function nameOf({ name, addresses }: CountedPod): string {
  return name === undefined ? addresses.map(formatAddress).join(", ") : `${name.namespace}/${name.name}`;
}
