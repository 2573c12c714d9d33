import type { DesiredElement } from "../../../ruleset/desired/desired_element.ts";
import type { FixedSet } from "../../compile/sets/member_set.ts";
import { POLICY_TABLE } from "../../compile/policy_table.ts";
import type { PolicyRules } from "../policy_rules.ts";

/** The most elements of one owner: a larger set has several, each of which the ruleset takes in one piece. */
const MOST_ELEMENTS = 1000;

interface ActiveSet {
  readonly size: number;
  holders: number;
}

/** The kernel's sets whose elements never change. A set that several profiles need is provided and claimed once. */
export class FixedSets {
  readonly #rules: PolicyRules;
  readonly #sets = new Map<string, ActiveSet>();

  constructor(rules: PolicyRules) {
    this.#rules = rules;
  }

  /** Adds a holder to a set with its elements. */
  hold({ definition, elements }: FixedSet): void {
    const { name } = definition;
    const known = this.#sets.get(name);
    if (known !== undefined) {
      known.holders++;
      return;
    }
    this.#sets.set(name, { size: elements.length, holders: 1 });
    this.#rules.provide(`fixed ${name}`, { sets: [definition], chains: [] });
    for (let start = 0; start < elements.length; start += MOST_ELEMENTS) {
      const claims = elements
        .slice(start, start + MOST_ELEMENTS)
        .map((element): DesiredElement => ({ table: POLICY_TABLE, set: name, element }));
      this.#rules.claim(ownerOf(name, start), claims);
    }
  }

  /** Removes a holder of a set. */
  release(name: string): void {
    const active = this.#sets.get(name);
    if (active === undefined || --active.holders > 0) return;
    this.#sets.delete(name);
    for (let start = 0; start < active.size; start += MOST_ELEMENTS) this.#rules.claim(ownerOf(name, start), []);
    this.#rules.provide(`fixed ${name}`, { sets: [], chains: [] });
  }
}

function ownerOf(name: string, start: number): string {
  return `fixed ${name} ${start}`;
}
