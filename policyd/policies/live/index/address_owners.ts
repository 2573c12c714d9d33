import type { Address } from "../../../../kernel/ip/address.ts";
import { addressKey } from "../../../../kernel/ip/address_key.ts";

/** The precedence of claims: the highest decides to which owner an address belongs. */
export const AddressRight = {
  /** By the status of a pod: one that is not terminating comes first, then one that is running (POL-57). */
  pod: (isRunning: boolean, isTerminating: boolean): number => (isRunning ? 1 : 0) + (isTerminating ? 0 : 2),
  /** By an attachment of a pod to this node, whatever the status of other pods says. */
  attachment: 4,
  /** By a pod of its node's network (POL-54). */
  hostNetworkPod: 5,
  node: 6,
} as const;

export interface AddressClaim {
  /** The key of the owner of the addresses, chosen by the caller. */
  readonly owner: string;
  readonly right: number;
  readonly addresses: readonly Address[];
}

/**
 * Decides to which owners each address belongs: to those of the claims with the highest right, nearly always one
 * (POL-95). The cost of a change depends only on what the changed source claims.
 */
export class AddressOwners {
  readonly #claims = new Map<string, AddressClaim>();
  /** The claim that decides about each address, by {@link addressKey}. */
  readonly #best = new Map<number | bigint, AddressClaim>();
  /** The other claims of an address, which are rare, in order of precedence and then by name. */
  readonly #others = new Map<number | bigint, readonly AddressClaim[]>();
  readonly #owned = new Map<string, readonly Address[]>();

  /**
   * Replaces the claim of a source; undefined withdraws it.
   *
   * @returns the owners whose addresses, or other owners of these, have changed; for each address those that gained it
   *   come first
   */
  replace(source: string, claim: AddressClaim | undefined): ReadonlySet<string> {
    const before = this.#claims.get(source);
    if (claim === undefined) this.#claims.delete(source);
    else this.#claims.set(source, claim);
    const changed = new Set<string>();
    for (const address of new Set([...(before?.addresses ?? []), ...(claim?.addresses ?? [])])) {
      const isClaimed = claim?.addresses.includes(address) === true;
      this.#exchange(address, before, isClaimed ? claim : undefined, changed);
    }
    // Nearly always an owner has exactly what is claimed for it, so both can share one list.
    const own = claim && this.#owned.get(claim.owner);
    if (claim !== undefined && own !== undefined && areSame(own, claim.addresses)) {
      this.#owned.set(claim.owner, claim.addresses);
    }
    return changed;
  }

  /** Returns the owners of an address by name; none for one that nobody claims. */
  ownersOf(address: Address): readonly string[] {
    const key = addressKey(address);
    const best = this.#best.get(key);
    if (best === undefined) return NONE;
    const equal = this.#others.get(key)?.filter(({ right }) => right === best.right) ?? NONE;
    return equal.length === 0 ? [best.owner] : [...new Set([best, ...equal].map(({ owner }) => owner))];
  }

  /** Whether several sources claim some address. */
  get isAnyContested(): boolean {
    return this.#others.size > 0;
  }

  /** Returns addresses without duplicates; the list is a new one whenever they change. */
  addressesOf(owner: string): readonly Address[] {
    return this.#owned.get(owner) ?? NONE;
  }

  #exchange(
    address: Address,
    gone: AddressClaim | undefined,
    come: AddressClaim | undefined,
    changed: Set<string>,
  ): void {
    const key = addressKey(address);
    const before = this.ownersOf(address);
    const known = [this.#best.get(key), ...(this.#others.get(key) ?? [])].filter((one) => one !== gone);
    const [best, ...others] = [...known, come].filter((one) => one !== undefined).sort(byRight);
    if (best === undefined) this.#best.delete(key);
    else this.#best.set(key, best);
    if (others.length === 0) this.#others.delete(key);
    else this.#others.set(key, others);
    const after = this.ownersOf(address);
    if (areSame(before, after)) return;
    for (const owner of after) {
      if (!before.includes(owner)) this.#owned.set(owner, this.addressesOf(owner).concat([address]));
      changed.add(owner);
    }
    for (const owner of before) {
      changed.add(owner);
      if (after.includes(owner)) continue;
      const owned = this.addressesOf(owner).filter((one) => one !== address);
      if (owned.length === 0) this.#owned.delete(owner);
      else this.#owned.set(owner, owned);
    }
  }
}

const NONE: readonly never[] = [];

function areSame<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((one, index) => one === b[index]);
}

function byRight(a: AddressClaim, b: AddressClaim): number {
  return b.right - a.right || (a.owner < b.owner ? -1 : a.owner > b.owner ? 1 : 0);
}
