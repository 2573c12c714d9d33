import type { RemainingFlows } from "../attachments/follower.ts";
import type { Cancel, Clock } from "../clock.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Address } from "../../kernel/ip/address.ts";

/** So much later at least, and mostly within twice that: a packet on its way takes microseconds, unless its processor stops. */
const LATER_MILLISECONDS = 500;

export interface AftermathParts {
  readonly clock: Pick<Clock, "after">;
  /** Settles with whether the rules of pods that went are gone: until then these let flows through. */
  readonly areRulesGone: () => Promise<boolean>;
  /** Forgets the flows from and to addresses. @throws DrawbridgeError (by the promise) when the kernel refuses */
  readonly forget: (addresses: readonly Address[]) => Promise<void>;
}

/**
 * The addresses of pods that went a moment ago (POD-20). Their flows are forgotten when their rules are gone, but a packet on
 * its way that met the old rules can make one behind that: so it is done once more a little later, for all that went meanwhile
 * at once.
 */
export class Aftermath {
  readonly #parts: AftermathParts;
  /** Those that went since the last turn, and those that went before. */
  #young = new Set<Address>();
  #old = new Set<Address>();
  /** Those whose flows are being forgotten. */
  #ending: { readonly addresses: ReadonlySet<Address>; readonly end: Promise<void> } | undefined;
  #timer: Cancel | undefined;
  #isStopped = false;

  constructor(parts: AftermathParts) {
    this.#parts = parts;
  }

  /** The rules of a pod go. */
  add(addresses: readonly Address[]): void {
    for (const address of addresses) this.#young.add(address);
    this.#schedule();
  }

  /** Settles when flows of these addresses are not being forgotten: what a pod begins must not be among them. */
  async pauseFor(addresses: readonly Address[]): Promise<void> {
    if (addresses.some((address) => this.#ending?.addresses.has(address) === true)) await this.#ending?.end;
  }

  /** A pod has addresses from now on. @returns whether there may be flows of another that had one of them */
  end(addresses: readonly Address[]): RemainingFlows {
    // It may be in both: it went twice, in two networks or by a DEL that came twice, before a turn and behind it.
    const found = addresses.map((address) => [this.#young.delete(address), this.#old.delete(address)]);
    return found.flat().includes(true) ? "unknown" : "none";
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.();
  }

  #schedule(): void {
    if (this.#isStopped || this.#ending !== undefined) return;
    this.#timer ??= this.#parts.clock.after(LATER_MILLISECONDS, () => {
      this.#timer = undefined;
      void this.#turn();
    });
  }

  async #turn(): Promise<void> {
    const addresses = this.#old;
    this.#old = this.#young;
    this.#young = new Set();
    if (addresses.size > 0) {
      this.#ending = { addresses, end: this.#forget(addresses) };
      await this.#ending.end;
      this.#ending = undefined;
    }
    if (this.#old.size + this.#young.size > 0) this.#schedule();
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
