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

interface Slot {
  /** Who wants an element of this key, in the order of their names; the first one's is taken. */
  readonly claimants: readonly { readonly owner: string; readonly element: Element }[];
}

/**
 * The elements all sets should have: the sum of what each owner claims.
 *
 * An owner's claims are replaced as a whole, at the cost of what it claims, whatever the others do. Two owners may want
 * one key; the one whose name sorts first has it until it lets go, so the result depends on what is claimed, never on
 * the order in which it was.
 */
export class DesiredElements {
  readonly #sets = new Map<TableKey, Map<string, Map<string, Slot>>>();
  readonly #claims = new Map<string, readonly Claim[]>();

  /**
   * Sets what an owner claims; an empty list forgets the owner.
   *
   * @returns the places whose element is another one now
   */
  replace(owner: string, claims: readonly Claim[]): readonly ElementPlace[] {
    const before = new Map<string, { readonly place: ElementPlace; readonly element: Element | undefined }>();
    const note = ({ table, set, element }: Claim): ElementPlace => {
      const place = { table: tableKey(table), set, key: keyText(element.key) };
      const id = `${place.table}\n${set}\n${place.key}`;
      if (!before.has(id)) before.set(id, { place, element: this.element(place) });
      return place;
    };
    for (const claim of this.#claims.get(owner) ?? []) this.#leave(note(claim), owner);
    for (const claim of claims) this.#enter(note(claim), owner, claim.element);
    if (claims.length === 0) this.#claims.delete(owner);
    else this.#claims.set(owner, claims);
    return [...before.values()]
      .filter(({ place, element }) => !isSame(element, this.element(place)))
      .map(({ place }) => place);
  }

  /** The element of a place; undefined when nobody claims one. */
  element({ table, set, key }: ElementPlace): Element | undefined {
    return this.#sets.get(table)?.get(set)?.get(key)?.claimants[0]?.element;
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

  #enter(place: ElementPlace, owner: string, element: Element): void {
    const sets = this.#sets.get(place.table) ?? new Map<string, Map<string, Slot>>();
    this.#sets.set(place.table, sets);
    const slots = sets.get(place.set) ?? new Map<string, Slot>();
    sets.set(place.set, slots);
    const others = slots.get(place.key)?.claimants.filter((claimant) => claimant.owner !== owner) ?? [];
    const claimants = [...others, { owner, element }];
    if (claimants.length > 1) claimants.sort((a, b) => (a.owner < b.owner ? -1 : 1));
    slots.set(place.key, { claimants });
  }

  #leave(place: ElementPlace, owner: string): void {
    const slots = this.#sets.get(place.table)?.get(place.set);
    const claimants = slots?.get(place.key)?.claimants.filter((claimant) => claimant.owner !== owner) ?? [];
    if (claimants.length > 0) slots?.set(place.key, { claimants });
    else slots?.delete(place.key);
  }
}

function isSame(a: Element | undefined, b: Element | undefined): boolean {
  return a === undefined || b === undefined ? a === b : isSameElement(a, b);
}
