import type { CountedElement, CountedRule, NftablesCounters } from "../../../../kernel/nftables/decode/counters.ts";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import type { FakeNftables } from "./fake_nftables.ts";
import type { Element, SetDefinition, TableReference } from "../../../../kernel/nftables/model/object.ts";

/**
 * Counters that a test controls. Each piece of a list has one element or rule, so that a test can act between any two.
 */
export class FakeCounters implements NftablesCounters {
  readonly #kernel: FakeNftables;
  readonly #rules = new Map<bigint, CountedRule>();
  #lastHandle = 0n;
  /** The error with which the next lists of rules fail. */
  error: Error | undefined;
  /** The number of lists of elements that were requested. */
  lists = 0;

  constructor(kernel: FakeNftables) {
    this.#kernel = kernel;
  }

  /** Adds a rule to a chain, the same in every table. @returns the rule's handle */
  add(rule: Omit<CountedRule, "handle" | "packets">): bigint {
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

  *rules(_table: TableReference, chain?: string): Generator<readonly CountedRule[], void, void> {
    if (this.error !== undefined) throw this.error;
    // Rules deleted during the list are still listed, as by the kernel.
    const listed = [...this.#rules.values()];
    for (const rule of listed) if (chain === undefined || rule.chain === chain) yield [rule];
  }

  *elements(table: TableReference, set: SetDefinition): Iterable<readonly CountedElement[]> {
    this.lists++;
    for (const element of this.#kernel.elements(table, set)) yield [this.#counted(table, set, element)];
  }

  #counted(table: TableReference, { name }: SetDefinition, element: Element): CountedElement {
    return { element, packets: this.#kernel.packets(table, name, keyText(element.key)) };
  }
}
