import type { CountedTableRule } from "../../kernel/nftables/rule_counters.ts";
import type { Direction } from "../policy/compile/profile.ts";
import { DIRECTIONS } from "../policy/compile/profile.ts";
import type { CounterMeaning, PolicyRuleLabels } from "./policy_rule.ts";
import { meaningOf, profileOf } from "./policy_rule.ts";

/** One line of the metric of rules. */
export interface PolicyRuleSeries extends PolicyRuleLabels {
  readonly direction: Direction;
  readonly packets: number;
}

/** Why profiles drop: no NetworkPolicy allows it, or a ClusterNetworkPolicy denies it. */
export type PolicyDrop = "isolated" | "denied";

/** An element of a set, by its key's text, and what it has counted. */
interface CountedPlace {
  readonly set: string;
  readonly element: string;
  readonly packets: number;
}

interface Sum {
  readonly labels: PolicyRuleLabels & { readonly direction: Direction };
  packets: number;
  /** How many rules count for it. */
  counters: number;
}

interface Counter {
  readonly meaning: CounterMeaning;
  readonly sum: Sum | undefined;
  packets: number;
}

const DROPS: readonly PolicyDrop[] = ["isolated", "denied"];

/**
 * What the rules of profiles have counted, in sums over all profiles: of a policy's rule that stands in many chains there is
 * one number. A sum grows by what its counters grow, so it does not fall when a chain is replaced by another; it ends
 * when no chain has its rule any more.
 */
export class PolicySums {
  /** By chain and the kernel's number of the rule. */
  readonly #counters = new Map<string, Map<bigint, Counter>>();
  readonly #rules = new Map<string, Sum>();
  /** Chains with rules that were put together. */
  readonly #merged = new Set<string>();
  /** What there is of merged rules since the last {@link prune}: keys of sums, and sets. */
  readonly #kept = new Set<string>();
  readonly #keptSets = new Set<string>();
  readonly #drops = zeros(DIRECTIONS.flatMap((direction) => DROPS.map((reason) => `${direction} ${reason}`)));
  readonly #wouldDrop = zeros(DIRECTIONS);
  readonly #several = zeros(DIRECTIONS);
  /** What elements of sets have counted, by set and element. */
  readonly #elements = new Map<string, Map<string, number>>();
  /** What of several rules elements have told whose it is. */
  readonly #attributed = zeros(DIRECTIONS);
  readonly #leftOver = zeros(DIRECTIONS);

  /** Takes over what the kernel showed of a rule. */
  observe(rule: CountedTableRule): void {
    const counter = this.#counters.get(rule.chain)?.get(rule.handle) ?? this.#newCounter(rule);
    if (counter === undefined) return;
    // Fewer than before: another table's rule, which has the same number, since ours was written anew.
    const growth = rule.packets >= counter.packets ? rule.packets - counter.packets : rule.packets;
    counter.packets = rule.packets;
    if (growth > 0) this.#grow(counter, growth);
  }

  /** Whether an element has counted more than what was taken over. */
  hasGrown({ set, element, packets }: CountedPlace): boolean {
    return packets !== (this.#elements.get(set)?.get(element) ?? 0);
  }

  /**
   * Takes over what an element of a set has counted, by which several rules are asked at once.
   *
   * @param rule which of them it is about; undefined where that cannot be told
   */
  observeElement({ set, element, packets }: CountedPlace, direction: Direction, rule?: PolicyRuleLabels): void {
    const elements = this.#elements.get(set) ?? new Map<string, number>();
    this.#elements.set(set, elements);
    const before = elements.get(element) ?? 0;
    elements.set(element, packets);
    if (rule === undefined) return;
    // Fewer than before: the element was written anew.
    const growth = packets >= before ? packets - before : packets;
    this.#ruleSum(direction, rule).packets += growth;
    add(this.#attributed, direction, growth);
  }

  /** The rules of a profile whose rules were put together, and the sets that count for them. */
  keepMerged(direction: Direction, rules: readonly PolicyRuleLabels[], sets: readonly string[]): void {
    for (const rule of rules) this.#kept.add(keyOf(direction, rule));
    for (const rule of rules) this.#ruleSum(direction, rule);
    for (const set of sets) this.#keptSets.add(set);
  }

  /** The profiles whose rules were put together: direction and key with "_" in between. */
  mergedProfiles(): ReadonlySet<string> {
    return new Set([...this.#merged].map(profileOf));
  }

  /** A chain's rules are gone. */
  removed(chain: string): void {
    for (const { sum } of this.#counters.get(chain)?.values() ?? []) if (sum !== undefined) sum.counters--;
    this.#counters.delete(chain);
    this.#merged.delete(chain);
  }

  /** The rules of all chains are gone. */
  allRemoved(): void {
    for (const sum of this.#rules.values()) sum.counters = 0;
    this.#counters.clear();
    this.#merged.clear();
    this.#elements.clear();
  }

  /** How many profiles had rules when all were observed last. */
  get profiles(): number {
    return new Set([...this.#counters.keys()].map(profileOf)).size;
  }

  /** Ends the sums of rules that no chain has any more. Called when everything has been observed once. */
  prune(): void {
    for (const [key, { counters }] of this.#rules) {
      if (counters === 0 && !this.#kept.has(key)) this.#rules.delete(key);
    }
    for (const set of this.#elements.keys()) if (!this.#keptSets.has(set)) this.#elements.delete(set);
    this.#kept.clear();
    this.#keptSets.clear();
    this.#settleSeveral();
  }

  *rules(): Generator<PolicyRuleSeries, void, void> {
    for (const { labels, packets } of this.#rules.values()) yield { ...labels, packets };
  }

  /** Dropped packets. */
  *drops(): Generator<{ readonly direction: Direction; readonly reason: PolicyDrop; readonly packets: number }> {
    for (const direction of DIRECTIONS) {
      for (const reason of DROPS) yield { direction, reason, packets: this.#drops.get(`${direction} ${reason}`) ?? 0 };
    }
  }

  /** Packets that policies in shadow would have dropped, by direction. */
  wouldDrop(): ReadonlyMap<string, number> {
    return this.#wouldDrop;
  }

  /** Packets allowed by rules that were put together, by direction, of which nobody knows whose they were. */
  several(): ReadonlyMap<string, number> {
    return this.#leftOver;
  }

  /** What is left over never falls, though an element may be read a moment later than its rule. */
  #settleSeveral(): void {
    for (const direction of DIRECTIONS) {
      const left = (this.#several.get(direction) ?? 0) - (this.#attributed.get(direction) ?? 0);
      this.#leftOver.set(direction, Math.max(this.#leftOver.get(direction) ?? 0, left));
    }
  }

  /** Undefined for a rule that no metric tells. */
  #newCounter(rule: CountedTableRule): Counter | undefined {
    const meaning = meaningOf(rule);
    if (meaning === undefined) return undefined;
    if (meaning.type === "several rules") this.#merged.add(rule.chain);
    const sum = meaning.type === "rule" ? this.#ruleSum(meaning.direction, meaning.rule) : undefined;
    if (sum !== undefined) sum.counters++;
    const counter: Counter = { meaning, sum, packets: 0 };
    const chain = this.#counters.get(rule.chain) ?? new Map<bigint, Counter>();
    this.#counters.set(rule.chain, chain.set(rule.handle, counter));
    return counter;
  }

  #ruleSum(direction: Direction, { policy, rule }: PolicyRuleLabels): Sum {
    const key = keyOf(direction, { policy, rule });
    const sum = this.#rules.get(key) ?? { labels: { policy, rule, direction }, packets: 0, counters: 0 };
    this.#rules.set(key, sum);
    return sum;
  }

  #grow({ meaning, sum }: Counter, growth: number): void {
    if (sum !== undefined) sum.packets += growth;
    const { direction } = meaning;
    if (meaning.type === "isolated") add(this.#drops, `${direction} isolated`, growth);
    if (meaning.type === "rule" && meaning.isDrop) add(this.#drops, `${direction} denied`, growth);
    if (meaning.type === "would drop") add(this.#wouldDrop, direction, growth);
    if (meaning.type === "several rules") add(this.#several, direction, growth);
  }
}

function keyOf(direction: Direction, { policy, rule }: PolicyRuleLabels): string {
  return `${direction} ${rule} ${policy}`;
}

function zeros(keys: readonly string[]): Map<string, number> {
  return new Map(keys.map((key) => [key, 0]));
}

function add(sums: Map<string, number>, key: string, growth: number): void {
  sums.set(key, (sums.get(key) ?? 0) + growth);
}
