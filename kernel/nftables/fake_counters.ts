import type { CountedElement, CountedRule, NftablesCounters } from "./counters.ts";
import { keyText } from "./element.ts";
import type { FakeNftables } from "./fake_nftables.ts";
import type { Element, SetDefinition, TableReference } from "./object.ts";

/** Each piece of a list has one element, so that something can happen between any two. */
export class FakeCounters implements NftablesCounters {
  readonly #kernel: FakeNftables;
  /** What the rules of a chain have counted; every chain has those of its name. */
  readonly rulesOf = new Map<string, readonly CountedRule[]>();
  /** How many lists of elements were asked for. */
  lists = 0;

  constructor(kernel: FakeNftables) {
    this.#kernel = kernel;
  }

  *elements(table: TableReference, set: SetDefinition): Iterable<readonly CountedElement[]> {
    this.lists++;
    for (const element of this.#kernel.elements(table, set)) yield [this.#counted(table, set, element)];
  }

  rules(_table: TableReference, chain: string): Iterable<readonly CountedRule[]> {
    return [this.rulesOf.get(chain) ?? []];
  }

  #counted(table: TableReference, { name }: SetDefinition, element: Element): CountedElement {
    return { element, packets: this.#kernel.packets(table, name, keyText(element.key)) };
  }
}
