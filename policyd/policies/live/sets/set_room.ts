import { SET_ELEMENTS, SET_SELECTIONS } from "../../../bounds.ts";
import { Budget, type BudgetBounds } from "../../../lib/budget.ts";
import type { ActiveSet } from "./active_set.ts";

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
}

const BOUNDS: RoomBounds = { set: MOST_SET_ELEMENTS, elements: SET_ELEMENTS, selections: SET_SELECTIONS };

/**
 * Counts the room that the sets of NetworkPolicies take, and refuses growth for which there is none (POL-93).
 *
 * The pairs of one policy are bounded (POL-73), but each pair has as many elements as its selector selects pods: one
 * policy of a tenant could take gigabytes on each node that runs a pod of it. Each set counts for one of the namespaces
 * whose pods need it. A set that a ClusterNetworkPolicy needs whole counts for none.
 */
export class SetRoom {
  readonly #bounds: RoomBounds;
  readonly #elements: Budget;
  readonly #selections: Budget;
  #total = 0;

  constructor(bounds: RoomBounds = BOUNDS) {
    this.#bounds = bounds;
    this.#elements = new Budget(bounds.elements);
    this.#selections = new Budget(bounds.selections);
  }

  /** The number of elements in all sets together. */
  get total(): number {
    return this.#total;
  }

  /** Returns whether a set may have this number of elements more. */
  hasRoom({ payer, size }: ActiveSet, elements: number): boolean {
    if (elements <= 0 || payer === undefined) return true;
    return size + elements <= this.#bounds.set && elements <= this.#elements.roomOf(payer);
  }

  /** Returns how many identities the groups of a set may select in all, each counted for each group. */
  selectionsOf({ payer }: ActiveSet): number {
    return payer === undefined ? Number.POSITIVE_INFINITY : Math.min(this.#bounds.set, this.#selections.roomOf(payer));
  }

  /** Adds a number of elements, and of identities that are selected; both may be negative. */
  change(active: ActiveSet, elements: number, selections = 0): void {
    active.size += elements;
    active.selections += selections;
    this.#total += elements;
    this.#charge(active, elements, selections);
  }

  /** Notes that the holders of a set have changed. Somebody else may count it now, whether there is room or not. */
  holdersChanged(active: ActiveSet): void {
    const [owner] = active.wholeHolders > 0 ? [] : active.owners.keys();
    if (owner === active.payer) return;
    this.#charge(active, -active.size, -active.selections);
    active.payer = owner;
    this.#charge(active, active.size, active.selections);
  }

  #charge({ payer }: ActiveSet, elements: number, selections: number): void {
    if (payer === undefined) return;
    this.#elements.change(payer, elements);
    this.#selections.change(payer, selections);
  }
}
