import { keyText } from "../../kernel/nftables/element.ts";
import type { Element, TableReference } from "../../kernel/nftables/object.ts";
import type { Claim, TableKey } from "./claim.ts";
import { tableKey } from "./claim.ts";
import type { KeptElement } from "./kept_element.ts";
import { isSameKept, kept } from "./kept_element.ts";

/** Where an element belongs: its set and the text of its key. */
export interface ElementPlace {
  readonly table: TableKey;
  readonly set: string;
  readonly key: string;
}

interface Claimant {
  readonly owner: string;
  readonly element: KeptElement;
}

/** The places of one set that somebody wants, by their keys. */
interface Slots {
  readonly table: TableKey;
  readonly set: string;
  readonly byKey: Map<string, Slot>;
}

/**
 * A place that somebody wants. There are tens of thousands, nearly all of one claimant: so he stands in the slot itself,
 * and what is the same for the whole set is kept once.
 */
class Slot implements ElementPlace {
  readonly slots: Slots;
  readonly key: string;
  /** Of several claimants all, in the order of their names; "" for nobody. */
  owner: string | Claimant[] = "";
  /** Of all claimants that of the one whose name sorts first. */
  element: KeptElement | undefined = undefined;

  constructor(slots: Slots, key: string) {
    this.slots = slots;
    this.key = key;
  }

  get table(): TableKey {
    return this.slots.table;
  }

  get set(): string {
    return this.slots.set;
  }

  enter(owner: string, element: KeptElement): void {
    if (this.element === undefined || this.owner === owner) {
      this.owner = owner;
      this.element = element;
      return;
    }
    const all = typeof this.owner === "string" ? [{ owner: this.owner, element: this.element }] : this.owner;
    const place = placeOf(all, owner);
    all.splice(place, all[place]?.owner === owner ? 1 : 0, { owner, element });
    this.owner = all;
    this.element = all[0]?.element;
  }

  leave(owner: string): void {
    const all = this.owner;
    if (all === owner) {
      this.owner = "";
      this.element = undefined;
    } else if (typeof all !== "string") {
      const place = placeOf(all, owner);
      if (all[place]?.owner === owner) all.splice(place, 1);
      const [first, second] = all;
      if (second === undefined) this.owner = first?.owner ?? "";
      this.element = first?.element;
    }
  }
}

/**
 * Where an owner stands among claimants, or would. Thousands may want one key, as all Services do whose sources are
 * restricted on one port number.
 */
function placeOf(all: readonly Claimant[], owner: string): number {
  let [from, to] = [0, all.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((all[middle]?.owner ?? "") < owner) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** The elements of a set by the texts of their keys. */
export interface WantedElements {
  get(key: string): KeptElement | undefined;
  /** The text that is kept anyway, where an equal one is. */
  own(key: string): string;
}

/** By the set's name. */
type SetSlots = Map<string, Slots>;

/**
 * The elements all sets should have: the sum of what each owner claims.
 *
 * An owner's claims are replaced as a whole, at the cost of what it claims, whatever the others do. Two owners may want
 * one key; the one whose name sorts first has it until it lets go, so the result depends on what is claimed, never on
 * the order in which it was.
 */
export class DesiredElements {
  readonly #sets = new Map<TableKey, SetSlots>();
  /** The same by reference: a claim of a Service names the table by one object. */
  readonly #setsOf = new WeakMap<TableReference, SetSlots>();
  readonly #claims = new Map<string, readonly Slot[]>();

  /**
   * Sets what an owner claims; an empty list forgets the owner.
   *
   * @returns the places whose element is another one now
   */
  replace(owner: string, claims: readonly Claim[]): readonly ElementPlace[] {
    const held = this.#claims.get(owner);
    if (held === undefined) return this.#enter(owner, claims);
    const before = new Map<Slot, KeptElement | undefined>();
    let name = owner;
    for (const slot of held) {
      if (before.has(slot)) continue;
      before.set(slot, slot.element);
      // One text of the name is enough for as long as he claims something.
      if (slot.owner === owner) name = slot.owner;
      slot.leave(owner);
    }
    const textOf = keyTexts();
    const slots = claims.map(({ table, set, element }) => {
      const slot = this.#slot(table, set, textOf(element.key));
      if (!before.has(slot)) before.set(slot, slot.element);
      slot.enter(name, kept(element));
      return slot;
    });
    if (slots.length === 0) this.#claims.delete(owner);
    else this.#claims.set(owner, slots);
    const changed: ElementPlace[] = [];
    for (const [slot, element] of before) {
      if (!isSame(element, slot.element)) changed.push(slot);
      if (slot.element === undefined) this.#drop(slot);
    }
    return changed;
  }

  /** As {@link replace} of an owner who claims nothing yet, as nearly all at a start. */
  #enter(owner: string, claims: readonly Claim[]): readonly ElementPlace[] {
    if (claims.length === 0) return [];
    const changed: ElementPlace[] = [];
    const textOf = keyTexts();
    const slots = claims.map(({ table, set, element }) => {
      const slot = this.#slot(table, set, textOf(element.key));
      const before = slot.element;
      slot.enter(owner, kept(element));
      if (!isSame(before, slot.element)) changed.push(slot);
      return slot;
    });
    this.#claims.set(owner, slots);
    return changed;
  }

  /** The elements of a set by their keys; undefined for a key that nobody claims. */
  in(table: TableKey, set: string): WantedElements {
    const slots = this.#sets.get(table)?.get(set)?.byKey;
    return { get: (key) => slots?.get(key)?.element, own: (key) => slots?.get(key)?.key ?? key };
  }

  /** Whether anybody claims an element of a set. */
  hasSet(table: TableReference, set: string): boolean {
    return this.#setsOf.get(table)?.has(set) === true || this.#sets.get(tableKey(table))?.has(set) === true;
  }

  /** The keys of a set's elements. */
  keys(table: TableKey, set: string): Iterable<string> {
    return this.#sets.get(table)?.get(set)?.byKey.keys() ?? [];
  }

  /** All elements of a set by their keys, in a map of the caller's own. */
  elements(table: TableReference, set: string): Map<string, KeptElement> {
    const found = new Map<string, KeptElement>();
    for (const [key, { element }] of this.#sets.get(tableKey(table))?.get(set)?.byKey ?? []) {
      if (element !== undefined) found.set(key, element);
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
    for (const sets of this.#sets.values()) for (const { byKey } of sets.values()) count += byKey.size;
    return count;
  }

  #slot(reference: TableReference, set: string, key: string): Slot {
    const slots = this.#slots(reference, set);
    let slot = slots.byKey.get(key);
    if (slot === undefined) slots.byKey.set(key, (slot = new Slot(slots, key)));
    return slot;
  }

  #slots(reference: TableReference, set: string): Slots {
    const sets = this.#setsOf.get(reference) ?? this.#newSets(reference);
    let slots = sets.get(set);
    if (slots === undefined) sets.set(set, (slots = { table: tableKey(reference), set, byKey: new Map() }));
    return slots;
  }

  /** Names of sets come and go, so nothing is kept of a set without elements. */
  #drop({ slots, key }: Slot): void {
    slots.byKey.delete(key);
    if (slots.byKey.size === 0) this.#sets.get(slots.table)?.delete(slots.set);
  }

  #newSets(reference: TableReference): SetSlots {
    const table = tableKey(reference);
    const sets: SetSlots = this.#sets.get(table) ?? new Map<string, Slots>();
    this.#sets.set(table, sets);
    this.#setsOf.set(reference, sets);
    return sets;
  }
}

/** Texts of keys, one for the same key in several sets one after the other, as a frontend's is. */
function keyTexts(): (key: Element["key"]) => string {
  let last: Element["key"] | undefined;
  let text = "";
  return (key) => {
    if (key !== last) text = keyText(key);
    last = key;
    return text;
  };
}

function isSame(a: KeptElement | undefined, b: KeptElement | undefined): boolean {
  return a === undefined || b === undefined ? a === b : isSameKept(a, b);
}
