import type { CountedElement, CountedRule, NftablesCounters } from "../../../../kernel/nftables/decode/counters.ts";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import type { FakeNftables } from "./fake_nftables.ts";
import type { Element, SetDefinition, TableReference } from "../../../../kernel/nftables/model/object.ts";

/** Counters that a test controls. Each piece of a list has one element, so that a test can act between any two. */
export class FakeCounters implements NftablesCounters {
  readonly #kernel: FakeNftables;
  /** The counted rules of each chain name, the same in every table. */
  readonly rulesOf = new Map<string, readonly CountedRule[]>();
  /** The number of lists of elements that were requested. */
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
