import type { Change } from "../../../kernel/nftables/encode/change.ts";
import type { Element, SetDefinition, TableReference } from "../../../kernel/nftables/model/object.ts";
import type { ElementPieces, Nftables } from "../../../kernel/nftables/socket.ts";
import type { ChainState, RuleState, SetState, TableHead } from "../../../kernel/nftables/decode/state.ts";

/** The probabilities of failures, from 0 to 1. */
export interface FaultRates {
  /** The rate for batches: half of the failing ones are refused, the others take effect and their answer is lost. */
  readonly commit: number;
  /** The rate for reads. */
  readonly read: number;
}

/** A kernel, real or fake, some of whose answers are failures. */
export class FaultyNftables implements Nftables {
  readonly #kernel: Nftables;
  readonly #random: () => number;
  #rates: FaultRates;
  #faults = 0;

  constructor(kernel: Nftables, random: () => number, rates: FaultRates) {
    this.#kernel = kernel;
    this.#random = random;
    this.#rates = rates;
  }

  /** The number of calls that have failed. */
  get faults(): number {
    return this.#faults;
  }

  /** Sets the rates at which calls fail from now on. */
  setRates(rates: FaultRates): void {
    this.#rates = rates;
  }

  commit(changes: readonly Change[]): void {
    const isFault = this.#random() < this.#rates.commit;
    if (isFault && this.#random() < 0.5) this.#fail("refused");
    this.#kernel.commit(changes);
    if (isFault) this.#fail("no answer");
  }

  head(reference: TableReference): TableHead | undefined {
    this.#mayFail();
    return this.#kernel.head(reference);
  }

  chains(reference: TableReference): readonly ChainState[] {
    this.#mayFail();
    return this.#kernel.chains(reference);
  }

  sets(reference: TableReference): readonly SetState[] {
    this.#mayFail();
    return this.#kernel.sets(reference);
  }

  rulesOf(reference: TableReference, chain: string): readonly RuleState[] {
    this.#mayFail();
    return this.#kernel.rulesOf(reference, chain);
  }

  elements(reference: TableReference, set: SetDefinition, keys?: readonly Element["key"][]): readonly Element[] {
    this.#mayFail();
    return this.#kernel.elements(reference, set, keys);
  }

  *elementsInPieces(reference: TableReference, set: SetDefinition): ElementPieces {
    for (const piece of this.#kernel.elementsInPieces(reference, set)) {
      this.#mayFail();
      yield piece;
    }
  }

  generation(): number {
    this.#mayFail();
    return this.#kernel.generation();
  }

  close(): void {
    this.#kernel.close();
  }

  #mayFail(): void {
    if (this.#random() < this.#rates.read) this.#fail("unreadable");
  }

  #fail(reason: string): never {
    this.#faults++;
    throw new Error(reason);
  }
}
