import { keyText } from "../../kernel/nftables/element.ts";
import type { Element, TableReference } from "../../kernel/nftables/object.ts";
import type { Claim, ElementsByKey, TableKey } from "./claim.ts";
import { isSameElement, tableKey } from "./claim.ts";

/** Where an element belongs: its set and the text of its key. */
export interface ElementPlace {
  readonly table: TableKey;
  readonly set: string;
  readonly key: string;
}

interface Claimant {
  readonly owner: string;
  readonly element: Element;
}

/** A place that somebody wants. Tens of thousands are made at once, so nothing else is kept of them. */
interface Slot extends ElementPlace {
  /** In the order of their names; the first one's element is taken. */
  readonly claimants: Claimant[];
}

type Slots = Map<string, Slot>;

/**
 * The elements all sets should have: the sum of what each owner claims.
 *
 * An owner's claims are replaced as a whole, at the cost of what it claims, whatever the others do. Two owners may want
 * one key; the one whose name sorts first has it until it lets go, so the result depends on what is claimed, never on
 * the order in which it was.
 */
export class DesiredElements {
  readonly #sets = new Map<TableKey, Map<string, Slots>>();
  /** The same by reference: a claim of a Service names the table by one object. */
  readonly #setsOf = new WeakMap<TableReference, Map<string, Slots>>();
  readonly #claims = new Map<string, readonly Slot[]>();

  /**
   * Sets what an owner claims; an empty list forgets the owner.
   *
   * @returns the places whose element is another one now
   */
  replace(owner: string, claims: readonly Claim[]): readonly ElementPlace[] {
    const before = new Map<Slot, Element | undefined>();
    for (const slot of this.#claims.get(owner) ?? []) {
      if (before.has(slot)) continue;
      before.set(slot, slot.claimants[0]?.element);
      leave(slot, owner);
    }
    const slots = claims.map(({ table, set, element }) => {
      const slot = this.#slot(table, set, keyText(element.key));
      if (!before.has(slot)) before.set(slot, slot.claimants[0]?.element);
      enter(slot, owner, element);
      return slot;
    });
    if (slots.length === 0) this.#claims.delete(owner);
    else this.#claims.set(owner, slots);
    const changed: ElementPlace[] = [];
    for (const [slot, element] of before) {
      if (!isSame(element, slot.claimants[0]?.element)) changed.push(slot);
      if (slot.claimants.length === 0) this.#drop(slot);
    }
    return changed;
  }

  /** The elements of a set by their keys; undefined for a key that nobody claims. */
  in(table: TableKey, set: string): { get(key: string): Element | undefined } {
    const slots = this.#sets.get(table)?.get(set);
    return { get: (key) => slots?.get(key)?.claimants[0]?.element };
  }

  /** Whether anybody claims an element of a set. */
  hasSet(table: TableReference, set: string): boolean {
    return this.#setsOf.get(table)?.has(set) === true || this.#sets.get(tableKey(table))?.has(set) === true;
  }

  /** The keys of a set's elements. */
  keys(table: TableKey, set: string): Iterable<string> {
    return this.#sets.get(table)?.get(set)?.keys() ?? [];
  }

  /** All elements of a set. */
  elements(table: TableReference, set: string): ElementsByKey {
    const found = new Map<string, Element>();
    for (const [key, { claimants }] of this.#sets.get(tableKey(table))?.get(set) ?? []) {
      const [first] = claimants;
      if (first !== undefined) found.set(key, first.element);
    }
    return found;
  }

  /** The names of those who claim something. */
  owners(): readonly string[] {
    return [...this.#claims.keys()];
  }

  /** The number of elements in all sets. */
  get size(): number {
    let count = 0;
    for (const sets of this.#sets.values()) for (const slots of sets.values()) count += slots.size;
    return count;
  }

  #slot(reference: TableReference, set: string, key: string): Slot {
    const sets = this.#setsOf.get(reference) ?? this.#newSets(reference);
    let slots = sets.get(set);
    if (slots === undefined) sets.set(set, (slots = new Map()));
    let slot = slots.get(key);
    if (slot === undefined) slots.set(key, (slot = { table: tableKey(reference), set, key, claimants: [] }));
    return slot;
  }

  /** Names of sets come and go, so nothing is kept of a set without elements. */
  #drop({ table, set, key }: Slot): void {
    const sets = this.#sets.get(table);
    const slots = sets?.get(set);
    slots?.delete(key);
    if (slots?.size === 0) sets?.delete(set);
  }

  #newSets(reference: TableReference): Map<string, Slots> {
    const table = tableKey(reference);
    const sets = this.#sets.get(table) ?? new Map<string, Slots>();
    this.#sets.set(table, sets);
    this.#setsOf.set(reference, sets);
    return sets;
  }
}

function enter({ claimants }: Slot, owner: string, element: Element): void {
  const own = claimants.findIndex((claimant) => claimant.owner === owner);
  if (own >= 0) claimants.splice(own, 1);
  const next = claimants.findIndex((claimant) => claimant.owner > owner);
  claimants.splice(next < 0 ? claimants.length : next, 0, { owner, element });
}

function leave({ claimants }: Slot, owner: string): void {
  const own = claimants.findIndex((claimant) => claimant.owner === owner);
  if (own >= 0) claimants.splice(own, 1);
}

function isSame(a: Element | undefined, b: Element | undefined): boolean {
  return a === undefined || b === undefined ? a === b : isSameElement(a, b);
}
