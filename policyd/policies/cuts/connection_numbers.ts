import type { Ruleset } from "../../ruleset/ruleset.ts";
import { connectionElement } from "../compile/table_elements.ts";

/** A connection missed by this many walks in a row is gone: one walk can miss it (kernel/conntrack/sliced_walk.ts). */
const MISSED_WALKS = 2;

/**
 * Connections by their numbers, in a set of the policies' table. An element stays for as long as its connection exists:
 * if a timeout removed it, the connection would get another verdict.
 */
export class ConnectionNumbers {
  readonly #ruleset: Pick<Ruleset, "claim">;
  readonly #set: "cut" | "settled";
  /** The number of walks that missed a connection. */
  readonly #missed = new Map<number, number>();
  readonly #seen = new Set<number>();

  constructor(ruleset: Pick<Ruleset, "claim">, set: "cut" | "settled") {
    this.#ruleset = ruleset;
    this.#set = set;
  }

  get size(): number {
    return this.#missed.size;
  }

  has(id: number): boolean {
    return this.#missed.has(id);
  }

  /** @param isSeen whether the connection is known to exist, and not just remembered */
  add(id: number, isSeen = true): void {
    if (isSeen) this.#seen.add(id);
    if (this.#missed.has(id)) return;
    this.#missed.set(id, 0);
    this.#ruleset.claim(this.#owner(id), [connectionElement(this.#set, id)], "urgent");
  }

  delete(id: number): void {
    if (this.#missed.delete(id)) this.#ruleset.claim(this.#owner(id), [], "urgent");
  }

  /** Notes that a walk through all connections has met this one. */
  see(id: number): void {
    if (this.#missed.has(id)) this.#seen.add(id);
  }

  /** Ends a walk through all connections: removes those that are gone. */
  endWalk(): void {
    for (const [id, missed] of this.#missed) {
      if (this.#seen.has(id)) this.#missed.set(id, 0);
      else if (missed + 1 < MISSED_WALKS) this.#missed.set(id, missed + 1);
      else this.delete(id);
    }
    this.#seen.clear();
  }

  #owner(id: number): string {
    return `connection ${this.#set} ${id}`;
  }
}
