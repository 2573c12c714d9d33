import type { ConntrackFilter } from "../../../kernel/conntrack/filter.ts";
import { EVERY_FLOW } from "../../../kernel/conntrack/flow_count.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { flowQuestions, isFlowOf } from "../../../kernel/conntrack/flows_of_addresses.ts";
import type { Address } from "../../../kernel/ip/address.ts";

/** The flows to be checked: those from and to addresses whose verdicts changed, or all. */
export class FlowsToCheck {
  #areAll = false;
  #addresses = new Set<Address>();

  get isEmpty(): boolean {
    return !this.#areAll && this.#addresses.size === 0;
  }

  /** Whether they are all among the flows of others, which are not all flows. */
  isWithin(others: FlowsToCheck): boolean {
    if (this.#areAll || others.#areAll) return false;
    for (const address of this.#addresses) if (!others.#addresses.has(address)) return false;
    return true;
  }

  add(addresses: Iterable<Address>): void {
    for (const address of addresses) this.#addresses.add(address);
  }

  addAll(): void {
    this.#areAll = true;
  }

  addThoseOf(other: FlowsToCheck): void {
    this.#areAll ||= other.#areAll;
    this.add(other.#addresses);
  }

  /** Returns what was collected so far, and clears it. */
  take(): FlowsToCheck {
    const taken = new FlowsToCheck();
    taken.addThoseOf(this);
    this.#areAll = false;
    this.#addresses = new Set();
    return taken;
  }

  /** The filters of lists that contain these flows. */
  questions(): readonly ConntrackFilter[] {
    return this.#areAll ? EVERY_FLOW : flowQuestions(this.#addresses);
  }

  /** Whether a flow is one of them, before or after NAT. */
  has(flow: FlowTuples): boolean {
    return this.#areAll || isFlowOf(flow, this.#addresses);
  }
}
