import type { ActiveSet } from "./active_set.ts";

/**
 * The most elements of one set of NetworkPolicies, each a pair of a pod's address and a port. They take some 50 MB of
 * the daemon's memory.
 */
export const MOST_SET_ELEMENTS = 131_072;

/** The most elements of all such sets of a node together. */
export const MOST_ELEMENTS = 524_288;

/** The bounds of {@link SetRoom}; tests use smaller ones. */
export interface RoomBounds {
  readonly set: number;
  readonly all: number;
}

const BOUNDS: RoomBounds = { set: MOST_SET_ELEMENTS, all: MOST_ELEMENTS };

/**
 * Counts the room that the sets of NetworkPolicies take, and chooses the set to be emptied if it is too much (POL-93).
 *
 * The pairs of one policy are bounded (POL-73), but each pair has as many elements as its selector selects pods: one
 * policy of a tenant could take gigabytes on each node that runs a pod of it. The largest user gives: a set above its
 * own bound or, if all together have too many elements, the largest set of the namespace whose sets are the largest.
 */
export class SetRoom {
  readonly #bounds: RoomBounds;
  readonly #sizes = new Map<ActiveSet, number>();
  #total = 0;

  constructor(bounds: RoomBounds = BOUNDS) {
    this.#bounds = bounds;
  }

  /** The number of elements in all sets together. */
  get total(): number {
    return this.#total;
  }

  /** Returns whether this number of elements is more than one set may have. */
  isTooLarge(elements: number): boolean {
    return elements > this.#bounds.set;
  }

  /** Adds a number of elements, which may be negative, to a set's size. */
  change(active: ActiveSet, elements: number): void {
    if (elements === 0) return;
    const size = (this.#sizes.get(active) ?? 0) + elements;
    if (size === 0) this.#sizes.delete(active);
    else this.#sizes.set(active, size);
    this.#total += elements;
  }

  /** Returns the set to be emptied next, after these may have grown; undefined when there is room. */
  overfull(grown: Iterable<ActiveSet>): ActiveSet | undefined {
    for (const active of grown) {
      if (isOpen(active) && this.isTooLarge(this.#sizes.get(active) ?? 0)) return active;
    }
    if (this.#total <= this.#bounds.all) return undefined;
    const open = [...this.#sizes].filter(([active]) => isOpen(active));
    const sums = new Map<string, number>();
    let sum = 0;
    for (const [{ owners }, size] of open) {
      sum += size;
      for (const owner of owners.keys()) sums.set(owner, (sums.get(owner) ?? 0) + size);
    }
    // The remaining elements are being removed, or trusted policies need them.
    if (sum <= this.#bounds.all) return undefined;
    const [largest] = [...sums].reduce((best, one) => (one[1] > best[1] ? one : best), ["", 0]);
    return open
      .filter(([{ owners }]) => owners.has(largest))
      .reduce<(typeof open)[number] | undefined>(
        (best, one) => (best && best[1] >= one[1] ? best : one),
        undefined,
      )?.[0];
  }
}

/** Whether a set may still be emptied: only rules that allow, of NetworkPolicies, use it. */
function isOpen({ isClosed, wholeHolders }: ActiveSet): boolean {
  return !isClosed && wholeHolders === 0;
}
