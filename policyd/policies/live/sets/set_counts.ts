import { Budget, type BudgetBounds } from "../../../lib/budget.ts";

/** Counts the kernel's sets that the NetworkPolicies of each namespace need, each set once for a namespace (POL-93). */
export class SetCounts {
  readonly #budget: Budget;
  /** The number of profiles that need a set, by the namespace and the name of the set. */
  readonly #holders = new Map<string, number>();
  #isFreed = false;

  constructor(bounds: BudgetBounds) {
    this.#budget = new Budget(bounds);
  }

  /**
   * Returns whether a profile may have these sets. The sets of a profile and of the one that it replaces exist together
   * for a while: it may have as many as that one, unless the namespace has more than its room already.
   *
   * @param replaced the number of sets of the profile that it replaces
   */
  hasRoom(namespace: string, sets: readonly string[], replaced = 0): boolean {
    if (sets.length <= this.#budget.roomOf(namespace, replaced)) return true;
    let room = this.#budget.roomOf(namespace);
    return sets.every((set) => this.#holders.has(keyOf(namespace, set)) || room-- > 0);
  }

  /** Adds a profile that needs sets, whether there is room or not. */
  hold(namespace: string, sets: readonly string[]): void {
    for (const set of sets) this.#change(namespace, set, 1);
  }

  /** Removes a profile. */
  release(namespace: string, sets: readonly string[]): void {
    for (const set of sets) this.#change(namespace, set, -1);
  }

  /** Returns whether any set has gone since the last call. */
  takeFreed(): boolean {
    const isFreed = this.#isFreed;
    this.#isFreed = false;
    return isFreed;
  }

  #change(namespace: string, set: string, holders: 1 | -1): void {
    const key = keyOf(namespace, set);
    const before = this.#holders.get(key) ?? 0;
    if (before + holders > 0) this.#holders.set(key, before + holders);
    else this.#holders.delete(key);
    if (before > 0 && before + holders > 0) return;
    this.#budget.change(namespace, holders);
    if (holders < 0) this.#isFreed = true;
  }
}

function keyOf(namespace: string, set: string): string {
  return `${namespace} ${set}`;
}
