/**
 * Packets that rules have dropped, by the rules' comments: sums of what the rules' counters show.
 *
 * A rule that is written anew counts from 0, and the sum goes on. What it counted since it was last read is lost then.
 */
export class RuleDrops {
  /** What each chain showed last, by reason. */
  readonly #seen = new Map<string, ReadonlyMap<string, number>>();
  readonly #totals = new Map<string, number>();

  /** @param reasons the comments of all rules that drop: each is told from the start, as Prometheus wants it */
  constructor(reasons: Iterable<string>) {
    for (const reason of reasons) this.#totals.set(reason, 0);
  }

  /**
   * Takes over what the kernel showed of a chain.
   *
   * @param chain its name with its table's
   * @param rules all that count there; several may have one reason
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

  /** A chain's rules were written anew. */
  rewritten(chain: string): void {
    this.#seen.delete(chain);
  }

  totals(): ReadonlyMap<string, number> {
    return this.#totals;
  }
}
