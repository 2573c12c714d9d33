import type { Address } from "../../../kernel/ip/address.ts";

/** What the drop log does with a packet: explains it, or only counts it. */
export type Paced = "new" | "repeated" | "too many";

export interface PaceLimits {
  /** Flows explained in a second, in the long run. */
  readonly perSecond: number;
  /** Flows explained at once. */
  readonly burst: number;
  /** Milliseconds for which a flow that was explained is not explained again: senders try again and again. */
  readonly silence: number;
}

/** Explaining takes a fraction of a millisecond, so this is what a flood may cost at most. */
export const DROP_LOG_LIMITS: PaceLimits = Object.freeze({ perSecond: 20, burst: 100, silence: 60_000 });

/** Bounds how many flows are explained, whatever is sent. Its memory is `perSecond` flows for each second of `silence`, and `burst`. */
export class Pace {
  readonly #limits: PaceLimits;
  /** By flow, the first that may be told again first. */
  readonly #told = new Map<string, { readonly until: number; readonly ends: readonly Address[] }>();
  #left: number;
  #filledAt = 0;

  constructor(limits: PaceLimits) {
    this.#limits = limits;
    this.#left = limits.burst;
  }

  /**
   * @param flow the same text for the same flow
   * @param ends its addresses
   * @param now milliseconds
   */
  take(flow: string, ends: readonly Address[], now: number): Paced {
    const { perSecond, burst, silence } = this.#limits;
    // A clock that was set back must not silence what follows.
    if (now < this.#filledAt) this.#told.clear();
    const elapsed = Math.max(0, now - this.#filledAt);
    for (const [told, { until }] of this.#told) {
      if (until > now) break;
      this.#told.delete(told);
    }
    if (this.#told.has(flow)) return "repeated";
    this.#left = Math.min(burst, this.#left + (elapsed / 1000) * perSecond);
    this.#filledAt = now;
    if (this.#left < 1) return "too many";
    this.#left--;
    this.#told.set(flow, { until: now + silence, ends });
    return "new";
  }

  /** Has flows explained again by and by, since the reason may be another one now. @param isMeant whether it is so of an address */
  forget(isMeant: (address: Address) => boolean): void {
    for (const [flow, { ends }] of this.#told) if (ends.some(isMeant)) this.#told.delete(flow);
  }
}
