import type { Change } from "../../kernel/nftables/encode/change.ts";
import type { TableReference } from "../../kernel/nftables/model/object.ts";
import type { CountedElement, CountedRule, NftablesCounters } from "../../kernel/nftables/decode/counters.ts";
import { NetlinkError } from "../../kernel/netlink/error.ts";
import { keyText } from "../../kernel/nftables/encode/element.ts";
import { tableKey } from "../ruleset/desired/desired_element.ts";
import type { Logger } from "../log/logger.ts";
import type { MergedProfile, MergedRules } from "./merged_rules.ts";
import type { CommitObserver } from "./commit_observer.ts";
import { PacedReading } from "./paced_reading.ts";
import { directionOf, labelsOf } from "./policy_rule.ts";
import { PolicySums } from "./policy_sums.ts";
import { each, inTurns, type Slices } from "../lib/sliced_work.ts";

export interface PolicyCountersParts {
  /** The table of policies. */
  readonly table: TableReference;
  readonly counters: NftablesCounters;
  readonly logger: Logger;
  /** Milliseconds, of a monotonic clock. */
  readonly now: () => number;
  /** Milliseconds since the epoch. */
  readonly time: () => number;
}

/**
 * Number of rules that are read before a batch deletes them; what further chains counted since the last read is lost.
 * A bound on time would lose counts whenever the machine is busy.
 */
const MOST_READ_BEFORE = 1000;
/** Number of a profile's grown elements that one read attributes to rules; the others follow in the next read. */
const MOST_TOLD_APART = 1000;
/** Telling which rule an element belongs to takes up to 50 µs. */
const ELEMENTS_AT_ONCE = 16;

/**
 * The counters of policy rules, read on request and before their chains are deleted. A failed read leaves the sums
 * unchanged and never keeps a batch from being written.
 */
export class PolicyCounters implements CommitObserver {
  readonly sums = new PolicySums();
  /** When the table was last written, in seconds since the epoch; 0 if never. */
  lastCommit = 0;
  readonly #parts: PolicyCountersParts;
  readonly #reading: PacedReading;
  /** Chains deleted during a read: results about them that still arrive have been counted already. */
  readonly #deleted = new Set<string>();
  #isListing = false;

  constructor(parts: PolicyCountersParts) {
    this.#parts = parts;
    this.#reading = new PacedReading(parts);
  }

  before(changes: readonly Change[]): void {
    const { table, counters } = this.#parts;
    let left = MOST_READ_BEFORE;
    for (const chain of this.#goneIn(changes)) {
      if (left <= 0) return;
      // An empty chain costs a request, too.
      left--;
      try {
        for (const rules of counters.rules(table, chain)) {
          left -= rules.length;
          for (const rule of rules) this.sums.observe(rule);
        }
      } catch (error) {
        this.#reading.failed(error);
      }
    }
  }

  committed(changes: readonly Change[]): void {
    if (changes.some((change) => this.#isOurs(change.table))) this.lastCommit = this.#parts.time() / 1000;
    for (const chain of this.#goneIn(changes)) {
      this.sums.removed(chain);
      if (this.#isListing) this.#deleted.add(chain);
    }
    const isAnew = changes.some((change) => change.kind === "delete table" && this.#isOurs(change.table));
    if (isAnew) this.sums.allRemoved();
  }

  /**
   * Reads all counters, unless they were read just now. The promise never rejects.
   *
   * @param merged attributes the packets of merged rules to single rules
   */
  refresh(merged: MergedRules): Promise<void> {
    return this.#reading.refresh(() => this.#read(merged));
  }

  async #read(merged: MergedRules): Promise<void> {
    this.#isListing = true;
    try {
      await inTurns(this.#readInSlices(merged));
      if (this.#deleted.size === 0) this.sums.prune();
    } catch (error) {
      this.#reading.failed(error);
    } finally {
      this.#isListing = false;
      this.#deleted.clear();
    }
  }

  *#readInSlices(merged: MergedRules): Slices<void> {
    const { table, counters } = this.#parts;
    const observe = (rules: readonly CountedRule[]): void => {
      for (const rule of rules) if (!this.#deleted.has(rule.chain)) this.sums.observe(rule);
    };
    yield* each(counters.rules(table), observe, 1);
    for (const profile of yield* merged.of(this.sums.mergedProfiles())) yield* this.#readElements(profile);
  }

  *#readElements({ direction, rules, sets }: MergedProfile): Slices<void> {
    const { table, counters } = this.#parts;
    yield* each(rules, ({ origin }) => this.sums.keepMerged(direction, labelsOf(origin)));
    let left = MOST_TOLD_APART;
    for (const { definition, ruleOf } of sets) {
      this.sums.keepSet(definition.name);
      try {
        for (const counted of counters.elements(table, definition)) {
          const observe = ({ element, packets }: CountedElement): void => {
            const place = { set: definition.name, element: keyText(element.key), packets };
            if (left <= 0 || !this.sums.hasGrown(place)) return;
            left--;
            this.sums.observeElement(place, direction, ruleOf(element));
          };
          yield* each(counted, observe, ELEMENTS_AT_ONCE);
          yield;
        }
      } catch (error) {
        // The set may have been deleted since the rules were listed.
        if (!(error instanceof NetlinkError && error.errnoName === "ENOENT")) throw error;
      }
    }
  }

  /** Returns the chains of profiles whose rules these changes delete. */
  #goneIn(changes: readonly Change[]): readonly string[] {
    const gone = changes.flatMap((change) =>
      change.kind === "flush chain" || change.kind === "delete chain" ? [change] : [],
    );
    const names = gone.filter((change) => this.#isOurs(change.table)).map(({ chain }) => chain);
    return [...new Set(names)].filter((name) => directionOf(name) !== undefined);
  }

  #isOurs(table: TableReference): boolean {
    return tableKey(table) === tableKey(this.#parts.table);
  }
}
