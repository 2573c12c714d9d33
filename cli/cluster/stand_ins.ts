import type { Address, Family } from "../../kernel/ip/address.ts";
import { addressPlus, parseAddress } from "../../kernel/ip/address.ts";

/** Reserved (RFC 1112) and discarded (RFC 6666): no cluster uses them. */
const FIRST = { 4: parseAddress("240.0.0.1"), 6: parseAddress("100::1") } as const;

/**
 * Addresses in place of those that files do not have: pods out of templates and Services that no API server has seen go
 * through the Service evaluator with them. Policies never see one, and nobody is shown one.
 */
export class StandIns {
  readonly #taken: ReadonlySet<Address>;
  readonly #next: Record<Family, Address> = { ...FIRST };
  readonly #addresses = new Map<string, Address>();
  readonly #owners = new Map<Address, string>();

  /** @param taken what the files do have */
  constructor(taken: ReadonlySet<Address>) {
    this.#taken = taken;
  }

  /** The address that stands in for that of an object, always the same. */
  addressOf(owner: string, family: Family): Address {
    const key = `${family} ${owner}`;
    const known = this.#addresses.get(key);
    if (known !== undefined) return known;
    let address = this.#next[family];
    while (this.#taken.has(address)) address = addressPlus(address, 1n) ?? FIRST[family];
    this.#next[family] = addressPlus(address, 1n) ?? FIRST[family];
    this.#addresses.set(key, address);
    this.#owners.set(address, owner);
    return address;
  }

  /** Whose address it stands in for; undefined for a real one. */
  ownerOf(address: Address): string | undefined {
    return this.#owners.get(address);
  }
}
