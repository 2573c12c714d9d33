import { type Address, addressPlus, type Family, parseAddress, FAMILIES } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, parseCidr } from "../../kernel/ip/cidr.ts";
import type { ClusterObject } from "../../objects/model.ts";

/** The ranges 240.0.0.0/4, reserved (RFC 1112), and 100::/64, discarded (RFC 6666): no cluster uses them. */
const FIRST = { 4: parseAddress("240.0.0.1"), 6: parseAddress("100::1") } as const;

const RANGES: readonly Cidr[] = ["240.0.0.0/4", "100::/64"].map((text) => parseCidr(text));

/** Returns whether an address is a stand-in. */
export function isPlaceholder(address: Address): boolean {
  return RANGES.some((range) => cidrContains(range, address));
}

/** Returns a function that gives a pod without addresses stand-ins, the same ones each time. */
export function standInAddresses(): (object: ClusterObject) => ClusterObject {
  const addresses = new PlaceholderAddresses(new Set());
  return (object) =>
    object.kind !== "Pod" || object.hostNetwork || object.addresses.length > 0
      ? object
      : { ...object, addresses: FAMILIES.map((family) => addresses.addressOf(object.key, family)) };
}

/**
 * Assigns addresses where files have none: the Service evaluator needs them for pods from templates and for Services
 * that no API server has seen. Policies never see one, and no output shows one.
 */
export class PlaceholderAddresses {
  readonly #taken: ReadonlySet<Address>;
  readonly #next: Record<Family, Address> = { ...FIRST };
  readonly #addresses = new Map<string, Address>();
  readonly #owners = new Map<Address, string>();

  /** @param taken the addresses in the files */
  constructor(taken: ReadonlySet<Address>) {
    this.#taken = taken;
  }

  /** Returns the stand-in for the address of an object, always the same one. */
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

  /** Returns the object that a stand-in belongs to; undefined for a real address. */
  ownerOf(address: Address): string | undefined {
    return this.#owners.get(address);
  }
}
