/** How much of a resource of the node the objects of namespaces may use. */
export interface BudgetBounds {
  /** The amount that each namespace has for itself, whatever others use. */
  readonly share: number;
  /** The amount that all namespaces together may use beyond their shares. */
  readonly pool: number;
  /** The most that one namespace may use, share included; undefined for no such bound. */
  readonly most?: number;
}

/**
 * Counts what the objects of each namespace use of a resource, and refuses growth for which there is no room. Nothing
 * that was granted is taken away again, so no namespace loses anything because another one grows.
 */
export class Budget {
  readonly #bounds: BudgetBounds;
  readonly #used = new Map<string, number>();
  #beyondShares = 0;

  constructor(bounds: BudgetBounds) {
    this.#bounds = bounds;
  }

  /** Returns how much more a namespace may use, if it used less by `own`. */
  roomOf(namespace: string, own = 0): number {
    const { share, pool, most = Number.POSITIVE_INFINITY } = this.#bounds;
    const used = this.#used.get(namespace) ?? 0;
    const others = used - own;
    const beyondShares = this.#beyondShares - this.#beyond(used) + this.#beyond(others);
    const room = Math.max(0, share - others) + Math.max(0, pool - beyondShares);
    return Math.max(0, Math.min(room, most - others));
  }

  /** Takes an amount if there is room for all of it. @returns whether there was */
  take(namespace: string, amount: number): boolean {
    if (amount > this.roomOf(namespace)) return false;
    this.change(namespace, amount);
    return true;
  }

  /** Adds an amount, which may be negative, whether there is room or not. */
  change(namespace: string, amount: number): void {
    const before = this.#used.get(namespace) ?? 0;
    const after = before + amount;
    this.#beyondShares += this.#beyond(after) - this.#beyond(before);
    if (after === 0) this.#used.delete(namespace);
    else this.#used.set(namespace, after);
  }

  #beyond(used: number): number {
    return Math.max(0, used - this.#bounds.share);
  }
}
