import type { Address } from "../../kernel/ip/address.ts";
import { compareAddresses } from "../../kernel/ip/address.ts";

/** Values in the order of an address that each has, IPv4 first; several may have the same. */
export class ByAddress<T extends object> {
  readonly #values: T[] = [];
  readonly #addressOf: (value: T) => Address;

  /** @param addressOf says the same of a value each time */
  constructor(addressOf: (value: T) => Address) {
    this.#addressOf = addressOf;
  }

  add(value: T): void {
    this.#values.splice(this.placeOf(this.#addressOf(value)), 0, value);
  }

  /** Takes out this value, and not another with its address; nothing where it is not there. */
  delete(value: T): void {
    const place = this.#values.indexOf(value, this.placeOf(this.#addressOf(value)));
    if (place >= 0) this.#values.splice(place, 1);
  }

  /** The value at a place of the order, from 0 on; undefined behind the last. */
  at(place: number): T | undefined {
    return this.#values[place];
  }

  /** The first place whose value has this address or one behind it. */
  placeOf(address: Address): number {
    let [low, high] = [0, this.#values.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      const value = this.#values[middle];
      if (value === undefined || compareAddresses(this.#addressOf(value), address) >= 0) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The values from an address up to another one. */
  between(first: Address, last: Address): readonly T[] {
    const found: T[] = [];
    for (let place = this.placeOf(first); ; place++) {
      const value = this.#values[place];
      if (value === undefined || compareAddresses(this.#addressOf(value), last) > 0) return found;
      found.push(value);
    }
  }
}
