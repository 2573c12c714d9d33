import { POLICY_SETS, SET_ELEMENTS, SET_SELECTIONS } from "../../../bounds.ts";
import { Budget, type BudgetBounds } from "../../../lib/budget.ts";
import type { SetDefinition } from "../../../../kernel/nftables/model/object.ts";
import type { HeldSet, MemberSet } from "../../compile/sets/member_set.ts";

/**
 * The most elements of one set of NetworkPolicies, each a pair of a pod's address and a port, and the most pairs of a
 * selector and the labels that it selects. They take some 50 MB of the daemon's memory.
 */
export const MOST_SET_ELEMENTS = 131_072;

/** The bounds of {@link SetRoom}; tests use smaller ones. */
export interface RoomBounds {
  readonly set: number;
  readonly elements: BudgetBounds;
  readonly selections: BudgetBounds;
  readonly sets: BudgetBounds;
}

const BOUNDS: RoomBounds = {
  set: MOST_SET_ELEMENTS,
  elements: SET_ELEMENTS,
  selections: SET_SELECTIONS,
  sets: POLICY_SETS,
};

/** How much more room a set needs at least, as far as this is known. */
export interface Lack {
  readonly elements: number;
  readonly selections: number;
}

/** A set that several namespaces may need. It counts for one of them. */
export interface SharedSet {
  readonly set: MemberSet | SetDefinition;
  /** The holders that need all of its elements: a rule that denies would let through the pods that it does not find. */
  wholeHolders: number;
  /** How often each namespace holds it for its NetworkPolicies. */
  readonly owners: Map<string, number>;
  /** The namespace whose room it takes; undefined if nobody holds it, or somebody needs it whole. */
  payer: string | undefined;
  /** The number of elements; one that several sources give counts for each. */
  size: number;
  /** The number of identities in those of its groups that count for it, each counted for each group. */
  selections: number;
  /** Undefined while it has all its elements (POL-93). */
  lack: Lack | undefined;
  /** A closed set has no elements; a set that is being filled is closed if there is no room for all of them. */
  state: "closed" | "filling" | "open";
  /** Tries again to add what it lacks; undefined for a set that is only tried when it gets a holder. */
  readonly retry: (() => void) | undefined;
}

/** Returns the state of a set that nobody holds yet. */
export function newShared(set: SharedSet["set"], retry?: () => void): SharedSet {
  return {
    set,
    wholeHolders: 0,
    owners: new Map(),
    payer: undefined,
    size: 0,
    selections: 0,
    lack: undefined,
    state: "closed",
    retry,
  };
}

/** Whether a profile still needs a set. */
export function isHeld({ wholeHolders, owners }: SharedSet): boolean {
  return wholeHolders + owners.size > 0;
}

/**
 * Counts the room that the sets of NetworkPolicies take, and refuses growth for which there is none (POL-93).
 *
 * The pairs of one policy are bounded (POL-73), but each pair has as many elements as its selector selects pods: one
 * policy of a tenant could take gigabytes on each node that runs a pod of it. Each set counts for one of the namespaces
 * whose pods need it; where that one has no room, for another that has. A set that a ClusterNetworkPolicy needs whole
 * counts for none.
 */
export class SetRoom {
  readonly counts: SetCounts;
  readonly #bounds: RoomBounds;
  readonly #elements: Budget;
  readonly #selections: Budget;
  readonly #lacking = new Set<SharedSet>();
  /** Those that lacked elements and have been refused none since all of them were queued. */
  readonly #tried = new Set<SharedSet>();
  #changes = 0;
  #isFreed = false;

  constructor(bounds: RoomBounds = BOUNDS) {
    this.#bounds = bounds;
    this.counts = new SetCounts(bounds.sets);
    this.#elements = new Budget(bounds.elements);
    this.#selections = new Budget(bounds.selections);
  }

  /** The held sets that lack elements because there was no room for them. */
  get lacking(): ReadonlySet<SharedSet> {
    return this.#lacking;
  }

  /** A number that changes whenever {@link lacking} does. */
  get changes(): number {
    return this.#changes;
  }

  /** Adds a holder to a set. @returns whether the set is to be opened: it is new, or there is room for what it lacks */
  hold(one: SharedSet, { isAllowing }: Pick<HeldSet, "isAllowing">, owner: string): boolean {
    const isNew = !isHeld(one);
    if (isAllowing) one.owners.set(owner, (one.owners.get(owner) ?? 0) + 1);
    else one.wholeHolders++;
    this.#holdersChanged(one);
    return isNew || this.#fits(one);
  }

  /** Removes a holder from a set. @returns whether it was the last one */
  release(one: SharedSet, { isAllowing }: Pick<HeldSet, "isAllowing">, owner: string): boolean {
    const left = (one.owners.get(owner) ?? 0) - 1;
    if (!isAllowing) one.wholeHolders--;
    else if (left > 0) one.owners.set(owner, left);
    else one.owners.delete(owner);
    this.#holdersChanged(one);
    if (isHeld(one)) return false;
    one.state = "closed";
    this.lacksNothing(one);
    return true;
  }

  /**
   * Returns whether a set may have this number of elements more, and of identities that are selected. If its payer has
   * no room for that, an owner that has room for all of the set counts it from now on.
   */
  hasRoom(one: SharedSet, elements: number, selections = 0): boolean {
    if (one.payer === undefined) return true;
    const { set } = this.#bounds;
    if ((elements > 0 && one.size + elements > set) || (selections > 0 && one.selections + selections > set))
      return false;
    if (this.#isFree(one.payer, elements, selections)) return true;
    for (const owner of one.owners.keys()) {
      if (owner === one.payer || !this.#isFree(owner, one.size + elements, one.selections + selections)) continue;
      this.#setPayer(one, owner);
      return true;
    }
    return false;
  }

  #isFree(owner: string, elements: number, selections: number): boolean {
    return elements <= this.#elements.roomOf(owner) && selections <= this.#selections.roomOf(owner);
  }

  /** Returns how many identities more the groups of a set may select, each counted for each group. */
  selectionsOf(one: SharedSet): number {
    if (one.payer === undefined) return Number.POSITIVE_INFINITY;
    const room = [...one.owners.keys()].map((owner) => {
      if (owner !== one.payer && !this.#isFree(owner, one.size, one.selections)) return 0;
      return this.#selections.roomOf(owner) - (owner === one.payer ? 0 : one.selections);
    });
    return Math.min(this.#bounds.set - one.selections, Math.max(...room));
  }

  /** Adds a number of elements, and of identities that are selected; both may be negative. */
  change(one: SharedSet, elements: number, selections = 0): void {
    one.size += elements;
    one.selections += selections;
    if (elements < 0 || selections < 0) this.#isFreed = true;
    this.#charge(one, elements, selections);
  }

  /** Notes that there was no room for what a set needs. */
  refuse(one: SharedSet, lack: Partial<Lack>): void {
    one.lack = { elements: 0, selections: 0, ...lack };
    this.#tried.delete(one);
    if (this.#lacking.has(one)) return;
    this.#lacking.add(one);
    this.#changes++;
  }

  /** Notes that all that a set lacks has been queued: it lacks nothing unless some is refused. */
  tries(one: SharedSet): void {
    if (one.lack !== undefined) this.#tried.add(one);
  }

  /** Notes that a set has all its elements, or that nobody needs it. */
  lacksNothing(one: SharedSet): void {
    one.lack = undefined;
    this.#tried.delete(one);
    if (this.#lacking.delete(one)) this.#changes++;
  }

  /**
   * Tries a set that lacks elements again if there is room for them by now. This is to be called only when all that was
   * tried before is settled: two sets that are filled at once may take each other's room.
   *
   * @returns whether there was one
   */
  retry(): boolean {
    for (const one of this.#tried) {
      one.state = "open";
      this.lacksNothing(one);
    }
    if (!this.#isFreed) return false;
    for (const one of this.#lacking) {
      if (one.retry === undefined || !this.#fits(one)) continue;
      one.retry();
      return true;
    }
    this.#isFreed = false;
    return false;
  }

  #fits(one: SharedSet): boolean {
    return one.lack !== undefined && this.hasRoom(one, one.lack.elements, one.lack.selections);
  }

  /** Somebody else may count a set now, whether there is room or not. */
  #holdersChanged(one: SharedSet): void {
    this.#isFreed = true;
    const isCounted = one.wholeHolders === 0;
    if (isCounted && one.payer !== undefined && one.owners.has(one.payer)) return;
    const owners = isCounted ? [...one.owners.keys()] : [];
    this.#setPayer(one, owners.find((owner) => this.#isFree(owner, one.size, one.selections)) ?? owners[0]);
  }

  #setPayer(one: SharedSet, payer: string | undefined): void {
    this.#charge(one, -one.size, -one.selections);
    one.payer = payer;
    this.#charge(one, one.size, one.selections);
  }

  #charge({ payer }: SharedSet, elements: number, selections: number): void {
    if (payer === undefined) return;
    this.#elements.change(payer, elements);
    this.#selections.change(payer, selections);
  }
}

/** Counts the kernel's sets that the NetworkPolicies of each namespace need, each set once for a namespace (POL-93). */
class SetCounts {
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
