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
 * Decides to which owner each address belongs: to that of the claim with the highest right, and among equal ones to the
 * first by name. The cost of a change depends only on what the changed source claims.
 */
export class AddressOwners {
  readonly #claims = new Map<string, AddressClaim>();
  /** The claim that decides about each address, by {@link addressKey}. */
  readonly #best = new Map<number | bigint, AddressClaim>();
  /** The other claims of an address, which are rare, in order of precedence. */
  readonly #others = new Map<number | bigint, readonly AddressClaim[]>();
  readonly #owned = new Map<string, readonly Address[]>();

  /**
   * Replaces the claim of a source; undefined withdraws it.
   *
   * @returns the owners whose addresses have changed; for each address the one that gained it comes first
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

  /** Returns undefined for an address that nobody claims. */
  ownerOf(address: Address): string | undefined {
    return this.#best.get(addressKey(address))?.owner;
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
    const before = this.#best.get(key)?.owner;
    const known = [this.#best.get(key), ...(this.#others.get(key) ?? [])].filter((one) => one !== gone);
    const [best, ...others] = [...known, come].filter((one) => one !== undefined).sort(byRight);
    if (best === undefined) this.#best.delete(key);
    else this.#best.set(key, best);
    if (others.length === 0) this.#others.delete(key);
    else this.#others.set(key, others);
    const after = best?.owner;
    if (before === after) return;
    if (after !== undefined) {
      this.#owned.set(after, this.addressesOf(after).concat([address]));
      changed.add(after);
    }
    if (before !== undefined) {
      const owned = this.addressesOf(before).filter((one) => one !== address);
      if (owned.length === 0) this.#owned.delete(before);
      else this.#owned.set(before, owned);
      changed.add(before);
    }
  }
}

const NONE: readonly Address[] = [];

function areSame(a: readonly Address[], b: readonly Address[]): boolean {
  return a.length === b.length && a.every((address, index) => address === b[index]);
}

function byRight(a: AddressClaim, b: AddressClaim): number {
  return b.right - a.right || (a.owner < b.owner ? -1 : a.owner > b.owner ? 1 : 0);
}
