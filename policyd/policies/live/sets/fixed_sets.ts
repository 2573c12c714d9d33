import type { DesiredElement } from "../../../ruleset/desired/desired_element.ts";
import type { FixedSet, HeldSet } from "../../compile/sets/member_set.ts";
import { POLICY_TABLE } from "../../compile/policy_table.ts";
import type { PolicyRules } from "../policy_rules.ts";
import { newShared, type SetRoom, type SharedSet } from "./set_room.ts";

/** The most elements of one owner: a larger set has several, each of which the ruleset takes in one piece. */
const MOST_ELEMENTS = 1000;

/**
 * The kernel's sets whose desired elements never change. A set that several profiles need is provided and claimed once.
 * One for whose elements there is no room has none until a further profile needs it (POL-93).
 */
export class FixedSets {
  readonly #rules: PolicyRules;
  readonly #room: SetRoom;
  readonly #sets = new Map<string, SharedSet>();

  constructor(rules: PolicyRules, room: SetRoom) {
    this.#rules = rules;
    this.#room = room;
  }

  /** Adds a holder to a set with its elements. @param owner the namespace whose pods need the set */
  hold(set: FixedSet, owner: string): void {
    const { definition, elements } = set;
    const { name } = definition;
    const known = this.#sets.get(name);
    const active = known ?? newShared(definition);
    if (known === undefined) {
      this.#sets.set(name, active);
      this.#rules.provide(`fixed ${name}`, { sets: [definition], chains: [] });
    }
    if (!this.#room.hold(active, set, owner)) return;
    if (!this.#room.hasRoom(active, elements.length)) return this.#room.refuse(active, { elements: elements.length });
    this.#room.lacksNothing(active);
    this.#room.change(active, elements.length);
    for (let start = 0; start < elements.length; start += MOST_ELEMENTS) {
      const claims = elements
        .slice(start, start + MOST_ELEMENTS)
        .map((element): DesiredElement => ({ table: POLICY_TABLE, set: name, element }));
      this.#rules.claim(ownerOf(name, start), claims);
    }
  }

  /** Removes a holder of a set. */
  release(set: HeldSet, owner: string): void {
    const { name } = set;
    const active = this.#sets.get(name);
    if (active === undefined || !this.#room.release(active, set, owner)) return;
    this.#sets.delete(name);
    for (let start = 0; start < active.size; start += MOST_ELEMENTS) this.#rules.claim(ownerOf(name, start), []);
    this.#room.change(active, -active.size);
    this.#rules.provide(`fixed ${name}`, { sets: [], chains: [] });
  }
}

function ownerOf(name: string, start: number): string {
  return `fixed ${name} ${start}`;
}
