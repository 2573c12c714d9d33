import { FAMILIES } from "../../kernel/ip/address.ts";
import type { Change } from "../../kernel/nftables/encode/change.ts";
import type { CountedRule, NftablesCounters } from "../../kernel/nftables/decode/counters.ts";
import type { SetDefinition, Table, TableReference } from "../../kernel/nftables/model/object.ts";
import { drop } from "../../kernel/nftables/model/statement.ts";
import { tableKey } from "../ruleset/desired/desired_element.ts";
import type { Logger } from "../log/logger.ts";
import { connectionSet } from "../services/rules/connection_counts.ts";
import { countedEndpoint } from "./counted_ports.ts";
import { type CountedPort, EndpointConnections } from "./endpoint_connections.ts";
import type { CommitObserver } from "./commit_observer.ts";
import { PacedReading } from "./paced_reading.ts";
import { eachInTurns } from "../lib/sliced_work.ts";

/** The parts that {@link NodeCounters} needs. */
export interface NodeCountersParts {
  readonly tables: readonly Table[];
  readonly counters: NftablesCounters;
  readonly logger: Logger;
  /** Whether the connections of each endpoint are counted. */
  readonly hasEndpoints: boolean;
  /** Receives the seconds that a batch took. */
  readonly onCommit: (seconds: number) => void;
  /** Milliseconds. */
  readonly now: () => number;
}

interface CountingChain {
  readonly table: Table;
  readonly chain: string;
}

/** A set of one of the tables whose elements have counters. */
interface CountingSet {
  readonly table: Table;
  readonly set: SetDefinition;
}

/**
 * The counters of the node's tables, read on request. A failed read leaves the sums unchanged, and never keeps a batch
 * from being written.
 */
export class NodeCounters implements CommitObserver {
  readonly #parts: NodeCountersParts;
  readonly #connections = new EndpointConnections();
  readonly #drops: RuleDrops;
  /** The sets in which rules count the connections of endpoints. */
  readonly #sets: ReadonlyMap<string, CountingSet>;
  /** The chains with rules that drop for a stated reason. */
  readonly #chains: ReadonlyMap<string, CountingChain>;
  readonly #reading: PacedReading;

  constructor(parts: NodeCountersParts) {
    this.#parts = parts;
    this.#reading = new PacedReading(parts);
    const dropping = parts.tables.flatMap((table) =>
      table.chains.flatMap(({ name: chain, rules }) =>
        rules.flatMap(({ comment, statements }) =>
          comment === undefined || !statements.includes(drop) ? [] : [{ table, chain, comment }],
        ),
      ),
    );
    this.#drops = new RuleDrops(dropping.map(({ comment }) => comment));
    this.#chains = new Map(dropping.map(({ table, chain }) => [idOf(table, chain), { table, chain }]));
    const written = parts.hasEndpoints ? FAMILIES.map(connectionSet) : [];
    this.#sets = new Map(
      parts.tables.flatMap((table) =>
        table.sets
          .filter(({ name }) => written.includes(name))
          .map((set) => [idOf(table, set.name), { table, set }] as const),
      ),
    );
  }

  /** Sets the ports of a Service, computed when the kernel has them. */
  claim(owner: string, ports: () => readonly CountedPort[]): void {
    if (this.#parts.hasEndpoints) this.#connections.claim(owner, ports);
  }

  committed(changes: readonly Change[], seconds: number): void {
    this.#parts.onCommit(seconds);
    // Sets and chains are added only with their table, which is then new, whether or not an old one existed.
    for (const change of changes) {
      if (change.kind === "add set" && this.#sets.has(idOf(change.table, change.set.name)))
        this.#connections.allRemoved();
      if (change.kind === "add chain") this.#drops.rewritten(idOf(change.table, change.chain.name));
      if (change.kind === "flush chain") this.#drops.rewritten(idOf(change.table, change.chain));
    }
  }

  /** Settles the claims, because the kernel has them now. */
  rulesInForce(): void {
    this.#connections.settle();
  }

  /**
   * Reads all counters, unless they were read just now.
   *
   * @param isReconciled whether the kernel has all claims
   * @returns a promise that resolves when {@link series} and {@link drops} are as current as possible, and never
   * rejects
   */
  refresh(isReconciled: boolean): Promise<void> {
    return this.#reading.refresh(() => this.#read(isReconciled));
  }

  /** Returns the new connections of each endpoint. */
  series(): ReturnType<EndpointConnections["series"]> {
    return this.#connections.series();
  }

  /** Returns the dropped packets, by the reason in the rule's comment. */
  drops(): ReadonlyMap<string, number> {
    return this.#drops.totals();
  }

  async #read(isReconciled: boolean): Promise<void> {
    if (isReconciled) this.#connections.settle();
    for (const [id, chain] of this.#chains) {
      await this.#reading.attempt(() => this.#drops.observe(id, this.#rules(chain)));
    }
    for (const counting of this.#sets.values()) await this.#reading.attempt(() => this.#readSet(counting));
  }

  async #readSet({ table, set }: CountingSet): Promise<void> {
    // The kernel prepares the next part of a list while it delivers one.
    const asked = this.#connections.moment;
    await eachInTurns(this.#parts.counters.elements(table, set), (elements) => {
      for (const element of elements) {
        const counted = countedEndpoint(element);
        if (counted !== undefined) this.#connections.observe(counted, asked);
      }
    });
  }

  /** Reads all rules without a pause, since the chain might be rewritten between two parts. */
  #rules({ table, chain }: CountingChain): readonly CountedRule[] {
    return [...this.#parts.counters.rules(table, chain)].flat();
  }
}

function idOf(table: TableReference, name: string): string {
  return `${tableKey(table)} ${name}`;
}

/**
 * Sums the packets that rules have dropped, by the rules' comments.
 *
 * A rewritten rule counts from 0 and the sum continues, without the packets counted since the last read.
 */
export class RuleDrops {
  /** The last counts of each chain, by reason. */
  readonly #seen = new Map<string, ReadonlyMap<string, number>>();
  readonly #totals = new Map<string, number>();

  /** @param reasons the comments of all rules that drop: each is exported from the start, as Prometheus recommends */
  constructor(reasons: Iterable<string>) {
    for (const reason of reasons) this.#totals.set(reason, 0);
  }

  /**
   * Adds the kernel's counts of a chain.
   *
   * @param chain its name, with its table's
   * @param rules all rules with counters; several may share a reason
   */
  observe(chain: string, rules: readonly { readonly comment: string; readonly packets: number }[]): void {
    const sums = new Map<string, number>();
    for (const { comment, packets } of rules) sums.set(comment, (sums.get(comment) ?? 0) + packets);
    for (const [reason, packets] of sums) {
      const total = this.#totals.get(reason);
      const seen = this.#seen.get(chain)?.get(reason) ?? 0;
      if (total !== undefined) this.#totals.set(reason, total + (packets >= seen ? packets - seen : packets));
    }
    this.#seen.set(chain, sums);
  }

  /** Forgets the last counts of a chain whose rules were rewritten. */
  rewritten(chain: string): void {
    this.#seen.delete(chain);
  }

  totals(): ReadonlyMap<string, number> {
    return this.#totals;
  }
}
