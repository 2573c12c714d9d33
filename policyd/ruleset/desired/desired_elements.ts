import { keyText } from "../../../kernel/nftables/encode/element.ts";
import type { Element, TableReference } from "../../../kernel/nftables/model/object.ts";
import { type DesiredElement, type TableKey, tableKey } from "./desired_element.ts";
import { isSamePacked, packElement, type PackedElement } from "./packed_element.ts";

/** Where an element belongs: its set and the text of its key. */
export interface ElementPlace {
  readonly table: TableKey;
  readonly set: string;
  readonly key: string;
}

interface Claimant {
  readonly owner: string;
  readonly element: PackedElement;
}

/** The places of one set that somebody wants, by their keys. */
interface Slots {
  readonly table: TableKey;
  readonly set: string;
  readonly byKey: Map<string, Slot>;
}

/**
 * A place that somebody wants. There are tens of thousands, nearly all with one claimant. So the slot itself holds the
 * claimant, and what is the same for a whole set is stored once.
 */
class Slot implements ElementPlace {
  readonly slots: Slots;
  readonly key: string;
  /** The only claimant, or all claimants in the order of their names; "" for nobody. */
  owner: string | Claimant[] = "";
  /** The element of the claimant whose name sorts first. */
  element: PackedElement | undefined = undefined;

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

  enter(owner: string, element: PackedElement): void {
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
 * Returns the index of an owner among claimants, or where to insert it. Thousands may want one key: all Services that
 * restrict their sources on one port number do.
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
  get(key: string): PackedElement | undefined;
  /** Returns the stored text that equals the key, if there is one, so that no second copy is kept in memory. */
  own(key: string): string;
}

/** By the set's name. */
type SetSlots = Map<string, Slots>;

/**
 * The elements that all sets should have: the sum of what each owner claims.
 *
 * An owner's claims are replaced as a whole, at a cost that depends only on its own claims. If several owners want one
 * key, the one whose name sorts first has it until it gives it up. So the result depends on what is claimed, never on
 * the order of the claims.
 */
export class DesiredElements {
  readonly #sets = new Map<TableKey, SetSlots>();
  readonly #claims = new Map<string, readonly Slot[]>();

  /**
   * Sets what an owner claims; an empty list forgets the owner.
   *
   * @returns the places whose element has changed
   */
  replace(owner: string, claims: readonly DesiredElement[]): readonly ElementPlace[] {
    const held = this.#claims.get(owner);
    if (held === undefined) return this.#enter(owner, claims);
    const before = new Map<Slot, PackedElement | undefined>();
    let name = owner;
    for (const slot of held) {
      if (before.has(slot)) continue;
      before.set(slot, slot.element);
      // The owner's name is stored as one string for as long as the owner claims something.
      if (slot.owner === owner) name = slot.owner;
      slot.leave(owner);
    }
    const textOf = keyTexts();
    const slots = claims.map(({ table, set, element }) => {
      const slot = this.#slot(table, set, textOf(element.key));
      if (!before.has(slot)) before.set(slot, slot.element);
      slot.enter(name, packElement(element));
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

  /** Like {@link replace} for an owner without claims, as nearly all owners are at the start. */
  #enter(owner: string, claims: readonly DesiredElement[]): readonly ElementPlace[] {
    if (claims.length === 0) return [];
    const changed: ElementPlace[] = [];
    const textOf = keyTexts();
    const slots = claims.map(({ table, set, element }) => {
      const slot = this.#slot(table, set, textOf(element.key));
      const before = slot.element;
      slot.enter(owner, packElement(element));
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
  hasSet(table: TableKey, set: string): boolean {
    return this.#sets.get(table)?.has(set) === true;
  }

  /** The keys of a set's elements. */
  keys(table: TableKey, set: string): Iterable<string> {
    return this.#sets.get(table)?.get(set)?.byKey.keys() ?? [];
  }

  /** All elements of a set by their keys, in a new map. */
  elements(table: TableKey, set: string): Map<string, PackedElement> {
    const found = new Map<string, PackedElement>();
    for (const [key, { element }] of this.#sets.get(table)?.get(set)?.byKey ?? []) {
      if (element !== undefined) found.set(key, element);
    }
    return found;
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
    const table = tableKey(reference);
    let sets = this.#sets.get(table);
    if (sets === undefined) this.#sets.set(table, (sets = new Map<string, Slots>()));
    let slots = sets.get(set);
    if (slots === undefined) sets.set(set, (slots = { table, set, byKey: new Map() }));
    return slots;
  }

  /** Names of sets come and go, so nothing is stored for a set without elements. */
  #drop({ slots, key }: Slot): void {
    slots.byKey.delete(key);
    if (slots.byKey.size === 0) this.#sets.get(slots.table)?.delete(slots.set);
  }
}

/** Returns a function for texts of keys. It reuses the last text, since several sets in a row may have the same key. */
function keyTexts(): (key: Element["key"]) => string {
  let last: Element["key"] | undefined;
  let text = "";
  return (key) => {
    if (key !== last) text = keyText(key);
    last = key;
    return text;
  };
}

function isSame(a: PackedElement | undefined, b: PackedElement | undefined): boolean {
  return a === undefined || b === undefined ? a === b : isSamePacked(a, b);
}
