import type { Address } from "../../../../kernel/ip/address.ts";
import type { CommitEffect } from "./affected_addresses.ts";

/**
 * The addresses of pods that come and go without flows whose verdict could change. For these the kernel need not walk
 * through its whole table of flows.
 *
 * Rules drop, and do not label, what is sent from or to an unknown address (POL-09), and the flows of an address that
 * leaves are forgotten (POD-20). So the commit by which an address becomes known, or ceases to be known, concerns no
 * flow; any other change is checked. While the table was missing, anything may have passed.
 */
export class FlowlessAddresses {
  readonly #coming = new Map<string, readonly Address[]>();
  readonly #leaving = new Set<Address>();

  /** Notes that a pod comes whose addresses have no flows. @param key its attachment's */
  comes(key: string, addresses: readonly Address[]): void {
    this.#coming.set(key, addresses);
  }

  /** Notes that a pod goes. @param forgotten its addresses whose flows are forgotten when their rules are gone */
  goes(key: string, forgotten: readonly Address[]): void {
    // A pod that was never in force has no rules to remove.
    if (this.#coming.delete(key)) return;
    for (const address of forgotten) this.#leaving.add(address);
  }

  /**
   * Notes that the rules for everything reported so far are in force.
   *
   * @param effect the commit's
   * @param isClaimed whether an attachment has rules now
   * @returns the addresses without flows that the commit could concern
   */
  settle(effect: CommitEffect | undefined, isClaimed: (key: string) => boolean): ReadonlySet<Address> {
    const flowless = new Set<Address>();
    if (effect === undefined) this.#coming.clear();
    else {
      const { changed, entered, left } = effect;
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
