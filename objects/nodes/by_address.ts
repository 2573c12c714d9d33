import { type Address, compareAddresses } from "../../kernel/ip/address.ts";

/** A list of values sorted by an address of each, IPv4 first; several may have the same address. */
export class ByAddress<T extends object> {
  readonly #values: T[] = [];
  readonly #addressOf: (value: T) => Address;

  /** @param addressOf always returns the same address for a value */
  constructor(addressOf: (value: T) => Address) {
    this.#addressOf = addressOf;
  }

  add(value: T): void {
    this.#values.splice(this.placeOf(this.#addressOf(value)), 0, value);
  }

  /** Removes this value, and no other with its address; does nothing if it is missing. */
  delete(value: T): void {
    const place = this.#values.indexOf(value, this.placeOf(this.#addressOf(value)));
    if (place >= 0) this.#values.splice(place, 1);
  }

  /** Returns the value at a place of the order, from 0 on; undefined after the last. */
  at(place: number): T | undefined {
    return this.#values[place];
  }

  /** Returns the first place whose value has this address or a later one. */
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

  /** Returns the values from one address to another, inclusive. */
  between(first: Address, last: Address): readonly T[] {
    const found: T[] = [];
    for (let place = this.placeOf(first); ; place++) {
      const value = this.#values[place];
      if (value === undefined || compareAddresses(this.#addressOf(value), last) > 0) return found;
      found.push(value);
    }
  }
}
