import type { TableReference } from "../../../../kernel/nftables/model/object.ts";
import type { CountedTableRule, RuleCounters } from "../../../../kernel/nftables/decode/rule_counters.ts";

/** Rules whose counters a test controls. Each piece of a list has one rule, so that a test can act between any two. */
export class FakeRuleCounters implements RuleCounters {
  readonly #rules = new Map<bigint, CountedTableRule>();
  #lastHandle = 0n;
  /** The error with which the next lists fail. */
  error: Error | undefined;

  /** @returns the rule's handle */
  add(rule: Omit<CountedTableRule, "handle" | "packets">): bigint {
    const handle = ++this.#lastHandle;
    this.#rules.set(handle, { ...rule, handle, packets: 0 });
    return handle;
  }

  count(handle: bigint, packets: number): void {
    const rule = this.#rules.get(handle);
    if (rule === undefined) throw new RangeError(`no rule ${handle}`);
    this.#rules.set(handle, { ...rule, packets: rule.packets + packets });
  }

  delete(chain: string): void {
    for (const [handle, rule] of this.#rules) if (rule.chain === chain) this.#rules.delete(handle);
  }

  /** Simulates a replaced table: handles start from the beginning again. */
  replace(): void {
    this.#rules.clear();
    this.#lastHandle = 0n;
  }

  *rules(_table: TableReference, chain?: string): Generator<readonly CountedTableRule[], void, void> {
    if (this.error !== undefined) throw this.error;
    // Rules deleted during the list are still listed, as by the kernel.
    const listed = [...this.#rules.values()];
    for (const rule of listed) if (chain === undefined || rule.chain === chain) yield [rule];
  }
}
