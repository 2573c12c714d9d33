import type { Address } from "../../kernel/ip/address.ts";
import { type Cidr, cidrFamily, lastAddress, networkAddress } from "../../kernel/ip/cidr.ts";
import { ByAddress } from "./by_address.ts";

/** A value with a prefix. */
export interface Prefixed {
  readonly cidr: Cidr;
  /** The prefix's network address. */
  readonly first: Address;
}

/**
 * An index of values by prefix, which finds overlapping prefixes. Several values may have the same prefix. Of two
 * prefixes that overlap one holds the other.
 */
export class OverlapIndex<T extends Prefixed> {
  readonly #sorted = new ByAddress<T>(({ first }) => first);
  /** The number of values with each prefix length. */
  readonly #lengths = { 4: new Map<number, number>(), 6: new Map<number, number>() } as const;

  add(value: T): void {
    this.#sorted.add(value);
    this.#count(value.cidr, 1);
  }

  /** Removes a value that was added. */
  delete(value: T): void {
    this.#sorted.delete(value);
    this.#count(value.cidr, -1);
  }

  /** Returns the values whose first address is in a prefix: inside it, or larger with the same first address. */
  from({ cidr, first }: Prefixed): readonly T[] {
    return this.#sorted.between(first, lastAddress(cidr));
  }

  /** Returns the values with a larger prefix that holds the given one. */
  around({ cidr, first }: Prefixed): readonly T[] {
    const shorter = [...this.#lengths[cidrFamily(cidr)].keys()].filter((length) => length < cidr.prefixLength);
    return shorter.flatMap((prefixLength) => {
      const network = networkAddress({ address: first, prefixLength });
      return this.#sorted.between(network, network).filter((value) => value.cidr.prefixLength === prefixLength);
    });
  }

  #count(cidr: Cidr, change: 1 | -1): void {
    const counts = this.#lengths[cidrFamily(cidr)];
    const count = (counts.get(cidr.prefixLength) ?? 0) + change;
    if (count === 0) counts.delete(cidr.prefixLength);
    else counts.set(cidr.prefixLength, count);
  }
}
