import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { isLoopback } from "../../../kernel/ip/loopback.ts";
import type { Cancel, Clock } from "../../clock.ts";
import type { Ruleset } from "../../dataplane/ruleset.ts";
import type { Logger } from "../../log/logger.ts";
import { crowdingHooks, POLICY_TABLE } from "../compile/policy_table.ts";
import { crowdedElement } from "../compile/table_elements.ts";
import type { OwnAddresses } from "./share.ts";
import { isBeyond, ownerOf } from "./share.ts";

/** The node's table of connections, as far as limits ask for it. What fails throws DrawbridgeError. */
export interface ConnectionTable {
  /** How many connections there are. */
  size(): number;
  /** How many there can be; 0 for any number, as the kernel has it. */
  capacity(): number;
  /** Goes through all of them, and deletes those for which this says so. May ask twice about one. @returns how many */
  sweep(isMeant: (flow: FlowTuples) => boolean): Promise<number>;
}

export interface ConnectionLimitParts {
  readonly table: ConnectionTable;
  readonly ruleset: Pick<Ruleset, "claim" | "provide">;
  /** The addresses of the pods of this node. */
  readonly addresses: () => Iterable<Address>;
  /** The node's own. @throws DrawbridgeError when the kernel refuses */
  readonly nodeAddresses: () => ReadonlySet<Address>;
  readonly clock: Clock;
  readonly logger: Pick<Logger, "warn" | "info">;
  /** The most connections of one address; undefined for a quarter of the table, once that is filled to three quarters. */
  readonly limit: number | undefined;
}

const CHECK_MILLISECONDS = 250;
/** A walk through the table costs some; so many times its own length lies between two at least. */
const REST = 4;
/** Who has this share of the limit or less may begin connections again. */
const RELEASE = 3 / 4;
/** By default: who has more of the table than this, and from which filling on that matters. */
const SHARE = 1 / 4;
const FULL = 3 / 4;

/**
 * Keeps single pods from filling the node's table of connections, with an accomplice outside who answers: then the
 * kernel cannot make room by itself, and nobody else could connect. No further connections begin that count for a pod
 * with too many, and what it has beyond the limit is deleted.
 *
 * The kernel could count by itself (`ct count`), and then goes through all connections of a pod for each new one: 1 ms
 * at 10,000 of them, which is an attack of its own. Here a new connection costs a look into a set while a pod has too many, and the table is gone through
 * only while it has more connections than one pod may have.
 */
export class ConnectionLimit {
  readonly #parts: ConnectionLimitParts;
  readonly #crowded = new Set<Address>();
  #timer: Cancel | undefined;
  #isStopped = false;
  #hasFailed = false;
  #deletions = 0;

  constructor(parts: ConnectionLimitParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#schedule(CHECK_MILLISECONDS);
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.();
  }

  /** What is wrong now, for the status. */
  problems(): readonly string[] {
    return [...this.#crowded].map(
      (address) => `${formatAddress(address)} has too many connections: no further ones begin (connectionLimit)`,
    );
  }

  /** Looks once. Settles when everything is done. */
  async check(): Promise<void> {
    const { logger } = this.#parts;
    try {
      const limit = this.#limit();
      if (limit === undefined && this.#crowded.size === 0) return;
      await this.#enforce(limit ?? Number.POSITIVE_INFINITY);
      this.#hasFailed = false;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      if (!this.#hasFailed) logger.warn("connections of pods cannot be counted", { error: error.message });
      this.#hasFailed = true;
    }
  }

  /** How many one address may have now; undefined while nobody can have too many. */
  #limit(): number | undefined {
    const { table, limit } = this.#parts;
    const size = table.size();
    if (limit !== undefined) return size > limit * RELEASE ? limit : undefined;
    const capacity = table.capacity();
    // Of a table without bounds there are no shares.
    if (capacity === 0) return undefined;
    if (size > capacity * FULL || this.#crowded.size > 0) return Math.floor(capacity * SHARE);
    return undefined;
  }

  async #enforce(limit: number): Promise<void> {
    const { table, ruleset, logger } = this.#parts;
    const counts = new Map<Address, number>();
    for (const address of this.#parts.addresses()) counts.set(address, 0);
    const nodeAddresses = this.#parts.nodeAddresses();
    const own: OwnAddresses = {
      isPod: (address) => counts.has(address),
      isNode: (address) => isLoopback(address) || nodeAddresses.has(address),
    };
    if (Number.isFinite(limit)) {
      await table.sweep((flow) => {
        const owner = ownerOf(flow, own);
        if (owner !== undefined) counts.set(owner, (counts.get(owner) ?? 0) + 1);
        return false;
      });
    }
    const before = new Set(this.#crowded);
    for (const address of before) if ((counts.get(address) ?? 0) <= limit * RELEASE) this.#crowded.delete(address);
    for (const [address, count] of counts) if (count > limit) this.#crowded.add(address);
    const chains = this.#crowded.size === 0 ? [] : crowdingHooks;
    ruleset.provide("connection limit", { table: POLICY_TABLE, sets: [], chains }, "urgent");
    ruleset.claim("connection limit", [...this.#crowded].map(crowdedElement), "urgent");
    for (const address of this.#crowded) {
      if (before.has(address)) continue;
      const fields = { address: formatAddress(address), connections: counts.get(address), limit };
      logger.warn("pod has too many connections: no further ones begin", fields);
    }
    for (const address of before) {
      if (!this.#crowded.has(address))
        logger.info("pod may begin connections again", { address: formatAddress(address) });
    }
    if ([...counts.values()].every((count) => count <= limit)) return;
    const salt = ++this.#deletions;
    await table.sweep((flow) => {
      const owner = ownerOf(flow, own);
      const count = owner === undefined ? 0 : (counts.get(owner) ?? 0);
      return count > limit && isBeyond(flow, limit / count, salt);
    });
  }

  #schedule(milliseconds: number): void {
    this.#timer = this.#parts.clock.after(milliseconds, () => void this.#turn());
  }

  async #turn(): Promise<void> {
    const { clock } = this.#parts;
    const began = clock.now();
    await this.check();
    if (!this.#isStopped) this.#schedule(Math.max(CHECK_MILLISECONDS, (clock.now() - began) * REST));
  }
}
