import { keyText } from "../../kernel/nftables/element.ts";
import type { Nftables } from "../../kernel/nftables/socket.ts";
import type { Element, Table, TableReference } from "../../kernel/nftables/object.ts";
import type { ElementsByKey, TableKey } from "./claim.ts";
import { tableKey } from "./claim.ts";
import type { SetDifference } from "./difference.ts";
import { isWrittenByRules } from "./schema.ts";

/** The elements we believe the kernel has: what it showed when we last read it, and what we committed since. */
export class Mirror {
  readonly #sets = new Map<TableKey, Map<string, Map<string, Element>>>();

  /** The elements of one set. */
  elements(table: TableReference, set: string): ElementsByKey {
    return this.#sets.get(tableKey(table))?.get(set) ?? new Map<string, Element>();
  }

  /** Takes over what the kernel showed for a set, or was given with a new table. */
  load(table: TableReference, set: string, elements: Iterable<Element>): void {
    const found = new Map<string, Element>();
    for (const element of elements) found.set(keyText(element.key), element);
    this.#take(table, set, found);
  }

  /** As {@link load}, where the keys are known. */
  loadByKey(table: TableReference, set: string, elements: ElementsByKey): void {
    this.#take(table, set, new Map(elements));
  }

  #take(table: TableReference, set: string, elements: Map<string, Element>): void {
    const sets = this.#sets.get(tableKey(table)) ?? new Map<string, Map<string, Element>>();
    this.#sets.set(tableKey(table), sets);
    sets.set(set, elements);
  }

  /** Takes over a committed difference. */
  apply({ table, set, deleted, added }: SetDifference): void {
    const elements = this.#sets.get(tableKey(table))?.get(set.name);
    if (elements === undefined) return this.load(table, set.name, added);
    for (const { key } of deleted) elements.delete(keyText(key));
    for (const element of added) elements.set(keyText(element.key), element);
  }
}

/** Takes over what the kernel has in a table's sets, of those whose elements are ours to write. */
export function readInto(mirror: Mirror, kernel: Nftables, table: Table): void {
  for (const set of table.sets) {
    if (!isWrittenByRules(set)) mirror.load(table, set.name, kernel.elements(table, set));
  }
}
