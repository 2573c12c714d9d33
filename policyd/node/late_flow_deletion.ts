import type { RemainingFlows } from "../attachments/follower.ts";
import type { Clock } from "../lib/clock.ts";
import { ControlLoop } from "../lib/control_loop.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Address } from "../../kernel/ip/address.ts";

/** Minimum delay; most addresses wait less than double. A packet is in flight for microseconds unless its CPU stalls. */
const LATER_MILLISECONDS = 500;

export interface LateFlowDeletionParts {
  readonly clock: Clock;
  /** Resolves to whether the rules of deleted pods are gone: until then those rules let flows through. */
  readonly areRulesGone: () => Promise<boolean>;
  /** Forgets the flows from and to addresses. @throws DrawbridgeError (rejects) when the kernel refuses */
  readonly forget: (addresses: readonly Address[]) => Promise<void>;
}

/**
 * Keeps the addresses of recently deleted pods and forgets their flows a second time (POD-20). Flows are forgotten when
 * a pod's rules are gone, but a packet in flight that matched the old rules can create one after that. A timer handles
 * all addresses that arrived meanwhile together.
 */
export class LateFlowDeletion {
  readonly #parts: LateFlowDeletionParts;
  /** Addresses added since the last turn; `#old` has the ones added before. */
  #young = new Set<Address>();
  #old = new Set<Address>();
  /** The addresses whose flows are being forgotten now. */
  #ending: { readonly addresses: ReadonlySet<Address>; readonly end: Promise<void> } | undefined;
  readonly #loop: ControlLoop;

  constructor(parts: LateFlowDeletionParts) {
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#turn(), pause: () => LATER_MILLISECONDS });
  }

  /** Adds the addresses of a pod whose rules are being removed. */
  add(addresses: readonly Address[]): void {
    for (const address of addresses) this.#young.add(address);
    this.#loop.enqueue();
  }

  /** Resolves when the flows of these addresses are not being forgotten, so that a new pod's own flows are not lost. */
  async pauseFor(addresses: readonly Address[]): Promise<void> {
    if (addresses.some((address) => this.#ending?.addresses.has(address) === true)) await this.#ending?.end;
  }

  /** Stops tracking the addresses of a new pod. @returns whether flows of their previous owner may remain */
  end(addresses: readonly Address[]): RemainingFlows {
    // An address may be in both sets: its pod left two networks, or its DEL was repeated in a later turn.
    const found = addresses.map((address) => [this.#young.delete(address), this.#old.delete(address)]);
    return found.flat().includes(true) ? "unknown" : "none";
  }

  stop(): void {
    void this.#loop.stop();
  }

  async #turn(): Promise<number | undefined> {
    const addresses = this.#old;
    this.#old = this.#young;
    this.#young = new Set();
    if (addresses.size > 0) {
      this.#ending = { addresses, end: this.#forget(addresses) };
      await this.#ending.end;
      this.#ending = undefined;
    }
    return this.#old.size + this.#young.size > 0 ? LATER_MILLISECONDS : undefined;
  }

  async #forget(addresses: ReadonlySet<Address>): Promise<void> {
    try {
      if (await this.#parts.areRulesGone()) return await this.#parts.forget([...addresses]);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
    }
    for (const address of addresses) this.#young.add(address);
  }
}
