import type { Address } from "../../../kernel/ip/address.ts";
import type { Commit } from "../../dataplane/commit.ts";
import { knownChanges } from "./affected_addresses.ts";

/**
 * The addresses of pods that come and go, which have no flows that could be judged otherwise: the kernel is spared a walk
 * through its whole table for each of them.
 *
 * Rules drop, and do not label, what is sent from or to an address that is not known yet (POL-09); with an address that
 * goes its flows are forgotten (POD-20). So the commit by which it becomes known or ceases to be concerns no flow, and
 * that one alone: whatever else changes about it is judged. While the table was away anything may have passed.
 */
export class FlowlessAddresses {
  readonly #coming = new Map<string, readonly Address[]>();
  readonly #leaving = new Set<Address>();

  /** A pod comes, and of its addresses there are no flows. @param key its attachment's */
  comes(key: string, addresses: readonly Address[]): void {
    this.#coming.set(key, addresses);
  }

  /** A pod goes. @param forgotten those of its addresses whose flows are forgotten when their rules are gone */
  goes(key: string, forgotten: readonly Address[]): void {
    // One that has not come into force has no rules that could go.
    if (this.#coming.delete(key)) return;
    for (const address of forgotten) this.#leaving.add(address);
  }

  /**
   * Takes over that what was told by now is in force.
   *
   * @param isClaimed whether that gives an attachment rules
   * @returns the addresses of which there are no flows that the commit could concern
   */
  settle({ isWhole, differences }: Commit, isClaimed: (key: string) => boolean): ReadonlySet<Address> {
    const flowless = new Set<Address>();
    if (isWhole) this.#coming.clear();
    else {
      const { changed, entered, left } = knownChanges(differences);
      for (const [key, addresses] of this.#coming) {
        if (!isClaimed(key) && !addresses.some((address) => changed.has(address))) continue;
        this.#coming.delete(key);
        for (const address of addresses) if (entered.has(address)) flowless.add(address);
      }
      for (const address of this.#leaving) if (left.has(address)) flowless.add(address);
    }
    this.#leaving.clear();
    return flowless;
  }
}
