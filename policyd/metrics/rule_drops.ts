/**
 * Sums the packets that rules have dropped, by the rules' comments.
 *
 * A rewritten rule counts from 0 and the sum continues, without the packets counted since the last read.
 */
export class RuleDrops {
  /** The last counts of each chain, by reason. */
  readonly #seen = new Map<string, ReadonlyMap<string, number>>();
  readonly #totals = new Map<string, number>();

  /** @param reasons the comments of all rules that drop: each is exported from the start, as Prometheus recommends */
  constructor(reasons: Iterable<string>) {
    for (const reason of reasons) this.#totals.set(reason, 0);
  }

  /**
   * Adds the kernel's counts of a chain.
   *
   * @param chain its name, with its table's
   * @param rules all rules with counters; several may share a reason
   */
  observe(chain: string, rules: readonly { readonly comment: string; readonly packets: number }[]): void {
    const sums = new Map<string, number>();
    for (const { comment, packets } of rules) sums.set(comment, (sums.get(comment) ?? 0) + packets);
    for (const [reason, packets] of sums) {
      const total = this.#totals.get(reason);
      const seen = this.#seen.get(chain)?.get(reason) ?? 0;
      if (total !== undefined) this.#totals.set(reason, total + (packets >= seen ? packets - seen : packets));
    }
    this.#seen.set(chain, sums);
  }

  /** Forgets the last counts of a chain whose rules were rewritten. */
  rewritten(chain: string): void {
    this.#seen.delete(chain);
  }

  totals(): ReadonlyMap<string, number> {
    return this.#totals;
  }
}
