import { type Address, type Family, familyOf } from "../../kernel/ip/address.ts";
import { addressKey } from "../../kernel/ip/address_key.ts";
import { type Cidr, cidrFamily, networkAddress } from "../../kernel/ip/cidr.ts";

/** An index of values by prefix. A search by an address takes one step for each prefix length. */
export class PrefixIndex<T> {
  /** By family, then by prefix length, the longest first. */
  readonly #byLength: Record<Family, Map<number, Map<number | bigint, T>>> = { 4: new Map(), 6: new Map() };

  set(cidr: Cidr, value: T): void {
    const family = cidrFamily(cidr);
    const known = this.#byLength[family].get(cidr.prefixLength);
    const ofLength = known ?? new Map<number | bigint, T>();
    ofLength.set(addressKey(networkAddress(cidr)), value);
    if (known !== undefined) return;
    const lengths = [...this.#byLength[family], [cidr.prefixLength, ofLength] as const];
    this.#byLength[family] = new Map(lengths.sort(([a], [b]) => b - a));
  }

  /**
   * Returns the value of the longest prefix that an address is in; undefined where it is in none.
   *
   * @param longest the longest prefix length that counts
   */
  find(address: Address, longest = Number.POSITIVE_INFINITY): T | undefined {
    for (const [prefixLength, values] of this.#byLength[familyOf(address)]) {
      if (prefixLength > longest) continue;
      const found = values.get(addressKey(networkAddress({ address, prefixLength })));
      if (found !== undefined) return found;
    }
    return undefined;
  }
}
