import type { Change } from "../../kernel/nftables/change.ts";
import type { CountedRule, NftablesCounters } from "../../kernel/nftables/counters.ts";
import type { Element, SetDefinition, Table } from "../../kernel/nftables/object.ts";
import { drop } from "../../kernel/nftables/statement.ts";
import type { Claim } from "../dataplane/claim.ts";
import { tableKey } from "../dataplane/claim.ts";
import type { Logger } from "../log/logger.ts";
import type { CountingElement, PortLabels } from "./endpoint_connections.ts";
import { EndpointConnections } from "./endpoint_connections.ts";
import type { CommitObserver } from "./observed_nftables.ts";
import { PacedReading } from "./paced_reading.ts";
import { RuleDrops } from "./rule_drops.ts";
import { inSlices } from "./slices.ts";

/** What the counters of a node's tables are read by. */
export interface NodeCountersParts {
  readonly tables: readonly Table[];
  readonly counters: NftablesCounters;
  readonly logger: Logger;
  /** Whether the connections of each endpoint are counted. */
  readonly hasEndpoints: boolean;
  /** Whether the kernel has all that is claimed. */
  readonly isSynced: () => boolean;
  /** Seconds a batch took. */
  readonly onCommit: (seconds: number) => void;
  /** Milliseconds. */
  readonly now: () => number;
}

/** So many elements are read before they are written anew; what others counted since the last reading is lost. */
const MOST_MOVED = 1024;

interface CountingChain {
  readonly id: string;
  readonly table: Table;
  readonly chain: string;
}

/** A set of one of the tables, whose elements count. */
interface CountingSet {
  readonly table: Table;
  readonly set: SetDefinition;
}

/**
 * The counters of the node's tables: read when somebody asks, and around what is written, so that nothing a deleted
 * element has counted is lost. Whatever cannot be read leaves the sums as they were, and never keeps a batch from being
 * written.
 */
export class NodeCounters implements CommitObserver {
  readonly #parts: NodeCountersParts;
  readonly #connections = new EndpointConnections();
  readonly #drops: RuleDrops;
  /** By the table's key and the set's name. */
  readonly #sets: ReadonlyMap<string, CountingSet>;
  /** Chains with rules that drop for a reason. */
  readonly #chains: readonly CountingChain[];
  readonly #reading: PacedReading;

  constructor(parts: NodeCountersParts) {
    this.#parts = parts;
    this.#reading = new PacedReading(() => this.#read(), parts.now);
    const dropping = parts.tables.flatMap((table) =>
      table.chains.flatMap(({ name: chain, rules }) =>
        rules.flatMap(({ comment, statements }) =>
          comment === undefined || !statements.includes(drop) ? [] : [{ table, chain, comment }],
        ),
      ),
    );
    this.#drops = new RuleDrops(dropping.map(({ comment }) => comment));
    this.#chains = [
      ...new Map(
        dropping.map(({ table, chain }) => [idOf(table, chain), { id: idOf(table, chain), table, chain }]),
      ).values(),
    ];
    const counting = parts.tables.flatMap((table) => table.sets.map((set) => ({ table, set })));
    this.#sets = new Map(
      counting
        .filter(({ set }) => parts.hasEndpoints && set.hasCounters === true)
        .map(({ table, set }) => [idOf(table, set.name), { table, set }]),
    );
  }

  /** What a Service claims for its ports: the elements that count among it become series. */
  claim(owner: string, ports: readonly { readonly claims: readonly Claim[]; readonly port: PortLabels }[]): void {
    if (!this.#parts.hasEndpoints) return;
    this.#connections.claim(owner, () =>
      ports.flatMap(({ claims, port }) =>
        claims
          .map(({ table, set, element }) => ({ set: idOf(table, set), element }))
          .filter(({ set }) => this.#sets.has(set))
          .map(({ set, element }): CountingElement => ({ set, element, port })),
      ),
    );
  }

  before(changes: readonly Change[]): void {
    let left = MOST_MOVED;
    for (const { id, elements, counting } of this.#deleted(changes)) {
      const moved = elements.filter((element) => this.#connections.isWanted(id, element)).slice(0, left);
      left -= moved.length;
      if (moved.length > 0) this.#attempt(() => this.#readThese(id, counting, moved));
    }
  }

  committed(changes: readonly Change[], seconds: number): void {
    this.#parts.onCommit(seconds);
    // Sets and chains are only ever added with their table, which then is a new one, whether or not the old one was there.
    const anew = new Set<string>();
    for (const change of changes) {
      if (change.kind === "add set") anew.add(idOf(change.table, change.set.name));
      if (change.kind === "add chain") this.#drops.rewritten(idOf(change.table, change.chain.name));
      if (change.kind === "flush chain") this.#drops.rewritten(idOf(change.table, change.chain));
    }
    if (anew.size > 0) this.#connections.allRemoved(anew);
    for (const { id, elements } of this.#deleted(changes)) {
      for (const element of elements) this.#connections.removed(id, element);
    }
  }

  /** The kernel has all that was claimed by now. */
  rulesInForce(): void {
    this.#connections.settle();
  }

  /**
   * Reads all counters, unless they were read just now.
   *
   * @returns when what {@link series} and {@link drops} tell is as new as it can be had; it never rejects
   */
  refresh(): Promise<void> {
    return this.#reading.refresh();
  }

  /** The new connections of each endpoint. */
  series(): ReturnType<EndpointConnections["series"]> {
    return this.#connections.series();
  }

  /** Packets that were dropped, by the reason that the rule's comment says. */
  drops(): ReadonlyMap<string, number> {
    return this.#drops.totals();
  }

  async #read(): Promise<void> {
    if (this.#parts.isSynced()) this.#connections.settle();
    for (const chain of this.#chains) this.#attempt(() => this.#drops.observe(chain.id, this.#rules(chain)));
    for (const id of this.#connections.sets()) {
      const counting = this.#sets.get(id);
      if (counting !== undefined) await this.#attemptLater(() => this.#readSet(id, counting));
    }
  }

  async #readSet(id: string, { table, set }: CountingSet): Promise<void> {
    // The kernel prepares the next piece of a list while it hands one over.
    const asked = this.#connections.moment;
    await inSlices(this.#parts.counters.elements(table, set), (elements) => {
      for (const { element, packets } of elements) this.#connections.observe(id, element, packets, asked);
    });
  }

  #readThese(id: string, { table, set }: CountingSet, wanted: readonly Element[]): void {
    for (const { element, packets } of this.#parts.counters.these(table, set, wanted)) {
      this.#connections.observe(id, element, packets);
    }
  }

  /** All of them at once: between two pieces the rules might be written anew. */
  #rules({ table, chain }: CountingChain): readonly CountedRule[] {
    return [...this.#parts.counters.rules(table, chain)].flat();
  }

  *#deleted(
    changes: readonly Change[],
  ): Generator<{ readonly id: string; readonly elements: readonly Element[]; readonly counting: CountingSet }> {
    for (const change of changes) {
      if (change.kind !== "delete elements") continue;
      const id = idOf(change.table, change.set.name);
      const counting = this.#sets.get(id);
      if (counting !== undefined) yield { id, elements: change.elements, counting };
    }
  }

  #attempt(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#unread(error);
    }
  }

  async #attemptLater(action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      this.#unread(error);
    }
  }

  /** Also of a bug: what is only told must not keep what is in force from being changed. */
  #unread(error: unknown): void {
    const words = error instanceof Error ? error.message : String(error);
    this.#parts.logger.warn("counters are not read", { error: words });
  }
}

function idOf(table: Claim["table"], name: string): string {
  return `${tableKey(table)} ${name}`;
}
