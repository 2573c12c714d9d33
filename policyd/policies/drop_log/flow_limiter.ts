import type { Address } from "../../../kernel/ip/address.ts";
import { type Rate, RateLimiter } from "../../lib/rate_limiter.ts";

/**
 * The rate at which flows are explained. Its burst is also the most that wait to be explained.
 *
 * The most that a flood may cost is a fiftieth of a processor. {@link REST} is the bound when a thousand policies select
 * a pod, since explaining one of its flows takes 14 ms; with a few policies it takes a fraction of a millisecond.
 */
export const EXPLAINED: Rate = { burst: 100, period: 50 };
/** Milliseconds for which an explained flow is not explained again: senders retry. */
const SILENCE = 60_000;
/** The pause after an explanation, as a multiple of the time it took. */
const REST = 49;

/**
 * Bounds how many flows are explained and how long that takes, whatever is sent. It stores the flows that the rate
 * allows within the silence, and those that wait.
 */
export class FlowLimiter {
  /** By flow; the first is the first that may be explained again. */
  readonly #reported = new Map<string, { readonly until: number; readonly ends: readonly Address[] }>();
  readonly #rate = new RateLimiter(EXPLAINED);
  #restUntil = 0;

  /**
   * Notes a packet's flow. A new one has to be explained when there is time ({@link wait}), then {@link explained} or
   * {@link dismiss} is called; one that is not new is only counted.
   *
   * @param flow the same text for the same flow
   * @param ends its addresses
   * @param now milliseconds, of a clock that is never set
   * @returns whether it is new
   */
  take(flow: string, ends: readonly Address[], now: number): boolean {
    for (const [reported, { until }] of this.#reported) {
      if (until > now) break;
      this.#reported.delete(reported);
    }
    if (this.#reported.has(flow)) return false;
    this.#reported.set(flow, { until: now + SILENCE, ends });
    return true;
  }

  /** Forgets a new flow that is not explained after all, because others have the room. */
  dismiss(flow: string): void {
    this.#reported.delete(flow);
  }

  /** Milliseconds until the next flow may be explained; 0 when it may be now. */
  wait(now: number): number {
    return Math.ceil(Math.max(0, this.#rate.wait(now), this.#restUntil - now));
  }

  /** Notes that a flow was explained. @param began when that began, in milliseconds @param now when it was done */
  explained(began: number, now: number): void {
    this.#rate.take(began);
    // After a suspension of the process, the log must not be silent for longer than this.
    this.#restUntil = now + Math.min(SILENCE, REST * (now - began));
  }

  /** Lets flows be explained again whose reason may have changed. @param isMeant whether an address is concerned */
  forget(isMeant: (address: Address) => boolean): void {
    for (const [flow, { ends }] of this.#reported) if (ends.some(isMeant)) this.#reported.delete(flow);
  }
}
