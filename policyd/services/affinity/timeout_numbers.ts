import type { Chain } from "../../../kernel/nftables/model/object.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { timeoutRules } from "../rules/affinity_part.ts";
import { keptTimeouts, MOST_TIMEOUTS, timeoutFor } from "../../../objects/timeout_choice.ts";

/** How long the clients of a Service stay with their endpoints, and which rules implement it. */
export interface AffinityTimeout {
  /** The timeout's number within the numbers of ports, from 1 to {@link MOST_TIMEOUTS}; 0 if clients do not stay. */
  readonly number: number;
  readonly seconds: number;
}

/** The timeout of a Service whose clients do not stay. */
export const NO_AFFINITY: AffinityTimeout = Object.freeze({ number: 0, seconds: 0 });

/**
 * The rules of one timeout: chains that write clients' entries, elements that lead to them; empty after its release.
 */
export interface TimeoutRules {
  readonly seconds: number;
  readonly chains: readonly Chain[];
  readonly claims: readonly DesiredElement[];
}

/**
 * The timeouts of session affinity that Services use, with a number for each.
 *
 * A timeout keeps its number and its rules after its last use until {@link release}: a packet in flight during a commit
 * may already carry the number and still needs the rules.
 */
export class TimeoutClasses {
  /** The timeouts of Services, by their keys. */
  readonly #timeouts = new Map<string, number>();
  #kept: readonly number[] = [];
  /** The number of each timeout that is retained or waits for {@link release}. */
  readonly #numbers = new Map<number, number>();
  readonly #leaving = new Set<number>();
  /** Timeouts whose rules have changed since {@link takeRules}. */
  readonly #changed = new Set<number>();

  /**
   * Sets the timeouts of some Services in seconds, undefined if clients do not stay.
   *
   * @returns the keys of all Services whose {@link of} has changed, not only of the given ones
   */
  replace(services: Iterable<readonly [key: string, seconds: number | undefined]>): ReadonlySet<string> {
    let isOther = false;
    for (const [key, seconds] of services) isOther = this.#set(key, seconds) || isOther;
    if (!isOther) return new Set();
    const before = this.#kept;
    this.#kept = keptTimeouts(this.#timeouts.values());
    this.#renumber(before);
    return this.#usersBetween(before);
  }

  /**
   * Returns how long clients stay with the endpoints of a Service that has this timeout.
   *
   * @param seconds a timeout that was set by {@link replace}
   * @throws RangeError for any other timeout
   */
  of(seconds: number | undefined): AffinityTimeout {
    if (seconds === undefined) return NO_AFFINITY;
    const kept = timeoutFor(seconds, this.#kept);
    const number = this.#numbers.get(kept);
    if (number === undefined) throw new RangeError(`timeout of ${seconds} s; expected one that a Service was set to`);
    return { number, seconds: kept };
  }

  /** Removes the rules of timeouts that no Service uses. Call it once no element in the kernel has their numbers. */
  release(): void {
    for (const timeout of this.#leaving) this.#forget(timeout);
  }

  /** Whether {@link release} would remove anything. */
  get hasLeaving(): boolean {
    return this.#leaving.size > 0;
  }

  /** Returns the rules that have changed since the last call. */
  takeRules(): readonly TimeoutRules[] {
    const changed = [...this.#changed].map((seconds): TimeoutRules => {
      const number = this.#numbers.get(seconds);
      return { seconds, ...(number === undefined ? { chains: [], claims: [] } : timeoutRules(number, seconds)) };
    });
    this.#changed.clear();
    return changed;
  }

  /** @returns whether the Service's timeout has changed */
  #set(key: string, seconds: number | undefined): boolean {
    if (this.#timeouts.get(key) === seconds) return false;
    if (seconds === undefined) this.#timeouts.delete(key);
    else this.#timeouts.set(key, seconds);
    return true;
  }

  /** Numbers the timeouts that are retained now and were not before, and marks those that were as leaving. */
  #renumber(before: readonly number[]): void {
    const kept = new Set(this.#kept);
    for (const timeout of before) if (!kept.has(timeout)) this.#leaving.add(timeout);
    for (const timeout of kept) {
      this.#leaving.delete(timeout);
      if (this.#numbers.has(timeout)) continue;
      this.#numbers.set(timeout, this.#freeNumber(timeout));
      this.#changed.add(timeout);
    }
  }

  #forget(timeout: number): void {
    this.#leaving.delete(timeout);
    this.#numbers.delete(timeout);
    this.#changed.add(timeout);
  }

  /**
   * Returns a number that no timeout has. A timeout gets the same number as often as possible, so that the elements of
   * an earlier daemon stay. If no number is free, a timeout that waits for {@link release} gives up its own.
   */
  #freeNumber(timeout: number): number {
    const taken = new Set(this.#numbers.values());
    for (let step = 0; step < MOST_TIMEOUTS; step++) {
      const number = ((timeout + step) % MOST_TIMEOUTS) + 1;
      if (!taken.has(number)) return number;
    }
    const [leaving = 0] = this.#leaving;
    const number = this.#numbers.get(leaving);
    if (number === undefined)
      throw new Error(`${this.#numbers.size} timeouts are kept; expected at most ${MOST_TIMEOUTS}`);
    this.#forget(leaving);
    return number;
  }

  /** Returns the Services whose clients stay for a different time than before. */
  #usersBetween(before: readonly number[]): ReadonlySet<string> {
    const changed = new Set<string>();
    // Nearly always each timeout was retained before and still is.
    if (before.length < MOST_TIMEOUTS && this.#kept.length < MOST_TIMEOUTS) return changed;
    for (const [key, seconds] of this.#timeouts) {
      if (timeoutFor(seconds, before) !== timeoutFor(seconds, this.#kept)) changed.add(key);
    }
    return changed;
  }
}
