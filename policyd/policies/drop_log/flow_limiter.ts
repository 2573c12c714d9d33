import type { Address } from "../../../kernel/ip/address.ts";

/** The decision about a packet: its flow is explained as soon as there is time, or the packet is only counted. */
export type Paced = "new" | "repeated";

export interface FlowLimits {
  /** Flows explained in a second, in the long run. */
  readonly perSecond: number;
  /** Flows explained at once, and the most that wait to be explained. */
  readonly burst: number;
  /** Milliseconds for which an explained flow is not explained again: senders retry. */
  readonly silence: number;
  /** Milliseconds of each second in which flows are explained, in the long run. */
  readonly time: number;
}

/**
 * The most that a flood may cost: a fiftieth of a processor. The time is the bound when a thousand policies select a
 * pod, since explaining one of its flows takes 14 ms; with a few policies it takes a fraction of a millisecond.
 */
export const DROP_LOG_LIMITS: FlowLimits = Object.freeze({ perSecond: 20, burst: 100, silence: 60_000, time: 20 });

/** Milliseconds: no explanation begins with less time left than this. */
const LEAST_TIME = 1;

/**
 * Bounds how many flows are explained and how long that takes, whatever is sent. It stores `perSecond` flows for each
 * second of `silence`, `burst` more, and those that wait.
 */
export class FlowLimiter {
  readonly #limits: FlowLimits;
  /** By flow; the first is the first that may be explained again. */
  readonly #reported = new Map<string, { readonly until: number; readonly ends: readonly Address[] }>();
  #left: number;
  /** Milliseconds; negative after a flow that took longer than there was time. */
  #time: number;
  #filledAt = 0;

  constructor(limits: FlowLimits) {
    this.#limits = limits;
    this.#left = limits.burst;
    this.#time = limits.time;
  }

  /**
   * Decides about a packet's flow. A "new" flow has to be explained when there is time ({@link wait}), then {@link
   * explained} or {@link dismiss} is called.
   *
   * @param flow the same text for the same flow
   * @param ends its addresses
   * @param now milliseconds, of a clock that is never set
   */
  take(flow: string, ends: readonly Address[], now: number): Paced {
    const { silence } = this.#limits;
    for (const [reported, { until }] of this.#reported) {
      if (until > now) break;
      this.#reported.delete(reported);
    }
    if (this.#reported.has(flow)) return "repeated";
    this.#reported.set(flow, { until: now + silence, ends });
    return "new";
  }

  /** Forgets a "new" flow that is not explained after all, because others have the room. */
  dismiss(flow: string): void {
    this.#reported.delete(flow);
  }

  /** Milliseconds until the next flow may be explained; 0 when it may be now. */
  wait(now: number): number {
    this.#fill(now);
    const { time, perSecond } = this.#limits;
    const forTime = this.#time >= LEAST_TIME ? 0 : (LEAST_TIME - this.#time) / time;
    const forTurn = this.#left >= 1 ? 0 : (1 - this.#left) / perSecond;
    return Math.ceil(Math.max(forTime, forTurn) * 1000);
  }

  /** Notes that a flow was explained. @param began when that began, in milliseconds @param now when it was done */
  explained(began: number, now: number): void {
    const { silence, time } = this.#limits;
    this.#fill(now);
    this.#left--;
    // After a suspension of the process, the log must not be silent for longer than this.
    const most = (silence / 1000) * time;
    this.#time = Math.max(-most, this.#time - (now - began));
  }

  /** Lets flows be explained again whose reason may have changed. @param isMeant whether an address is concerned */
  forget(isMeant: (address: Address) => boolean): void {
    for (const [flow, { ends }] of this.#reported) if (ends.some(isMeant)) this.#reported.delete(flow);
  }

  #fill(now: number): void {
    const { perSecond, burst, time } = this.#limits;
    const seconds = (now - this.#filledAt) / 1000;
    this.#filledAt = now;
    this.#left = Math.min(burst, this.#left + seconds * perSecond);
    this.#time = Math.min(time, this.#time + seconds * time);
  }
}
