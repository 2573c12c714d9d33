import type { CountedRule } from "../../kernel/nftables/decode/counters.ts";
import { type Direction, DIRECTIONS } from "../policies/compile/profile.ts";
import { namespaceOf } from "../../objects/namespace_of.ts";
import { POLICY_SERIES } from "../bounds.ts";
import { Budget, type BudgetBounds } from "../lib/budget.ts";
import { type CounterMeaning, meaningOf, type PolicyRuleLabels, profileOf } from "./policy_rule.ts";

/** One series of the rule metric. */
export interface PolicyRuleSeries extends PolicyRuleLabels {
  readonly direction: Direction;
  readonly packets: number;
}

/** Why profiles drop: no NetworkPolicy allows the packet, or a ClusterNetworkPolicy denies it. */
export type PolicyDrop = "isolated" | "denied";

/** An element of a set, by the text of its key, with its count. */
interface CountedPlace {
  readonly set: string;
  readonly element: string;
  readonly packets: number;
}

interface Sum {
  readonly labels: PolicyRuleLabels & { readonly direction: Direction };
  packets: number;
  /** Number of kernel rules that count for this sum. */
  counters: number;
  /** Whether merged rules had its traffic at the last complete read. */
  isMerged: boolean;
}

interface Counter {
  readonly meaning: CounterMeaning;
  readonly sum: Sum | undefined;
  packets: number;
}

/** The labels of the series that counts for the rules of NetworkPolicies without one of their own. */
const OTHERS: PolicyRuleLabels = { policy: "", rule: 0 };

const DROPS: readonly PolicyDrop[] = ["isolated", "denied"];

/**
 * Sums the counters of profiles' rules over all profiles: a policy's rule in many chains gives one number. A sum grows
 * by the growth of its counters, so it does not fall when a chain is replaced; it ends when no chain has its rule any
 * more.
 */
export class PolicySums {
  /** By chain and the kernel's rule handle. */
  readonly #counters = new Map<string, Map<bigint, Counter>>();
  readonly #rules = new Map<string, Sum>();
  readonly #others = new Map<Direction, Sum>();
  readonly #budget: Budget;
  /** Chains with merged rules. */
  readonly #merged = new Set<string>();
  /** Merged rules present since the last {@link prune}: keys of sums, and set names. */
  readonly #kept = new Set<string>();
  readonly #keptSets = new Set<string>();
  readonly #drops = zeros(DIRECTIONS.flatMap((direction) => DROPS.map((reason) => `${direction} ${reason}`)));
  readonly #wouldDrop = zeros(DIRECTIONS);
  readonly #several = zeros(DIRECTIONS);
  /** Counts of sets' elements, by set and element. */
  readonly #elements = new Map<string, Map<string, number>>();
  /** Packets of merged rules that element counters have attributed to single rules. */
  readonly #attributed = zeros(DIRECTIONS);
  readonly #leftOver = zeros(DIRECTIONS);

  constructor(bounds: BudgetBounds = POLICY_SERIES) {
    this.#budget = new Budget(bounds);
  }

  /** Adds the kernel's count of a rule. */
  observe(rule: CountedRule): void {
    const counter = this.#counters.get(rule.chain)?.get(rule.handle) ?? this.#newCounter(rule);
    if (counter === undefined) return;
    // A lower count belongs to a rule with the same handle in a new table.
    const growth = rule.packets >= counter.packets ? rule.packets - counter.packets : rule.packets;
    counter.packets = rule.packets;
    if (growth > 0) this.#grow(counter, growth);
  }

  /** Returns whether an element's count differs from the one recorded. */
  hasGrown({ set, element, packets }: CountedPlace): boolean {
    return packets !== (this.#elements.get(set)?.get(element) ?? 0);
  }

  /**
   * Records the count of a set element that merged rules look up.
   *
   * @param rule the rule that it belongs to; undefined where that is unknown
   */
  observeElement({ set, element, packets }: CountedPlace, direction: Direction, rule?: PolicyRuleLabels): void {
    const elements = this.#elements.get(set) ?? new Map<string, number>();
    this.#elements.set(set, elements);
    const before = elements.get(element) ?? 0;
    elements.set(element, packets);
    if (rule === undefined) return;
    // A lower count means that the element was written again.
    const growth = packets >= before ? packets - before : packets;
    this.#ruleSum(direction, rule).packets += growth;
    add(this.#attributed, direction, growth);
  }

  /** Retains the sum of a merged rule at the next {@link prune}. */
  keepMerged(direction: Direction, rule: PolicyRuleLabels): void {
    this.#kept.add(keyOf(direction, rule));
    this.#ruleSum(direction, rule);
  }

  /** Retains the counts of a set at the next {@link prune}. */
  keepSet(name: string): void {
    this.#keptSets.add(name);
  }

  /** Returns the profiles with merged rules: direction and key, joined by "_". */
  mergedProfiles(): ReadonlySet<string> {
    return new Set([...this.#merged].map(profileOf));
  }

  /** Forgets the counters of a deleted chain. */
  removed(chain: string): void {
    for (const { sum } of this.#counters.get(chain)?.values() ?? []) if (sum !== undefined) sum.counters--;
    this.#counters.delete(chain);
    this.#merged.delete(chain);
  }

  /** Forgets the counters of all chains. */
  allRemoved(): void {
    for (const sum of [...this.#rules.values(), ...this.#others.values()]) sum.counters = 0;
    this.#counters.clear();
    this.#merged.clear();
    this.#elements.clear();
  }

  /** Number of profiles that had rules when all were last observed. */
  get profiles(): number {
    return new Set([...this.#counters.keys()].map(profileOf)).size;
  }

  /** Drops the sums of rules that no chain has any more. Called after a complete read. */
  prune(): void {
    for (const [key, sum] of this.#rules) {
      sum.isMerged = this.#kept.has(key);
      if (sum.counters > 0 || sum.isMerged) continue;
      this.#rules.delete(key);
      this.#budget.change(namespaceOf(sum.labels.policy), -1);
    }
    for (const set of this.#elements.keys()) if (!this.#keptSets.has(set)) this.#elements.delete(set);
    this.#kept.clear();
    this.#keptSets.clear();
    this.#settleSeveral();
  }

  *rules(): Generator<PolicyRuleSeries, void, void> {
    for (const sums of [this.#rules, this.#others]) {
      for (const { labels, packets } of sums.values()) yield { ...labels, packets };
    }
  }

  /** Yields the rules, without those of which it is not known whether any packet matched them. */
  *knownRules(): Generator<PolicyRuleSeries, void, void> {
    for (const { labels, packets, isMerged } of this.#rules.values()) {
      const isHidden = isMerged && (this.#leftOver.get(labels.direction) ?? 0) > 0;
      if (packets > 0 || !isHidden) yield { ...labels, packets };
    }
  }

  /** Yields the numbers of dropped packets. */
  *drops(): Generator<{ readonly direction: Direction; readonly reason: PolicyDrop; readonly packets: number }> {
    for (const direction of DIRECTIONS) {
      for (const reason of DROPS) yield { direction, reason, packets: this.#drops.get(`${direction} ${reason}`) ?? 0 };
    }
  }

  /** Returns the packets that shadow policies would have dropped, by direction. */
  wouldDrop(): ReadonlyMap<string, number> {
    return this.#wouldDrop;
  }

  /** Returns the packets allowed by merged rules that are not attributed to a single rule, by direction. */
  several(): ReadonlyMap<string, number> {
    return this.#leftOver;
  }

  /** Computes the unattributed packets. They never decrease, though an element may be read later than its rule. */
  #settleSeveral(): void {
    for (const direction of DIRECTIONS) {
      const left = (this.#several.get(direction) ?? 0) - (this.#attributed.get(direction) ?? 0);
      this.#leftOver.set(direction, Math.max(this.#leftOver.get(direction) ?? 0, left));
    }
  }

  /** Returns undefined for a rule without a metric. */
  #newCounter(rule: CountedRule): Counter | undefined {
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
    const known = this.#rules.get(key);
    if (known !== undefined) return known;
    const namespace = namespaceOf(policy);
    // A ClusterNetworkPolicy has no namespace, and its author is trusted.
    if (namespace !== "" && this.#budget.roomOf(namespace) < 1) return this.#sumOfOthers(direction);
    this.#budget.change(namespace, 1);
    const sum = { labels: { policy, rule, direction }, packets: 0, counters: 0, isMerged: false };
    this.#rules.set(key, sum);
    return sum;
  }

  #sumOfOthers(direction: Direction): Sum {
    const none = { labels: { ...OTHERS, direction }, packets: 0, counters: 0, isMerged: false };
    const sum = this.#others.get(direction) ?? none;
    this.#others.set(direction, sum);
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
