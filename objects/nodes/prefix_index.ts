import { type Address, type Family, familyOf } from "../../kernel/ip/address.ts";
import { addressKey } from "../../kernel/ip/address_key.ts";
import { type Cidr, cidrFamily, networkAddress } from "../../kernel/ip/cidr.ts";

/** An index of values by prefix. A search by an address takes one step for each prefix length. */
export class PrefixIndex<T> {
  readonly #byLength: Readonly<Record<Family, Map<number, Map<number | bigint, T>>>> = { 4: new Map(), 6: new Map() };

  set(cidr: Cidr, value: T): void {
    const lengths = this.#byLength[cidrFamily(cidr)];
    const ofLength = lengths.get(cidr.prefixLength) ?? new Map<number | bigint, T>();
    lengths.set(cidr.prefixLength, ofLength.set(addressKey(networkAddress(cidr)), value));
  }

  /** Returns the value of one of the prefixes that an address is in; undefined where it is in none. */
  find(address: Address): T | undefined {
    for (const [prefixLength, values] of this.#byLength[familyOf(address)]) {
      const found = values.get(addressKey(networkAddress({ address, prefixLength })));
      if (found !== undefined) return found;
    }
    return undefined;
  }
}
