import type { ConntrackFilter } from "../../../kernel/conntrack/filter.ts";
import { EVERY_FLOW } from "../../../kernel/conntrack/flow_count.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { flowQuestions, isFlowOf } from "../../../kernel/conntrack/flows_of_addresses.ts";
import type { Address } from "../../../kernel/ip/address.ts";

/** Which flows are to be judged: those from and to addresses whose verdicts changed, or all. */
export class Suspects {
  #areAll = false;
  #addresses = new Set<Address>();

  get isEmpty(): boolean {
    return !this.#areAll && this.#addresses.size === 0;
  }

  add(addresses: Iterable<Address>): void {
    for (const address of addresses) this.#addresses.add(address);
  }

  addAll(): void {
    this.#areAll = true;
  }

  addThoseOf(other: Suspects): void {
    this.#areAll ||= other.#areAll;
    this.add(other.#addresses);
  }

  /** What was collected so far, of which nothing is left here. */
  take(): Suspects {
    const taken = new Suspects();
    taken.addThoseOf(this);
    this.#areAll = false;
    this.#addresses = new Set();
    return taken;
  }

  /** What the kernel is asked for, so that they are among it. */
  questions(): readonly ConntrackFilter[] {
    return this.#areAll ? EVERY_FLOW : flowQuestions(this.#addresses);
  }

  /** Whether a flow is one of them, in front of NAT or behind it. */
  has(flow: FlowTuples): boolean {
    return this.#areAll || isFlowOf(flow, this.#addresses);
  }
}
