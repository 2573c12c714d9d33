import type { Address } from "../../../kernel/ip/address.ts";
import { addressKey } from "../../../kernel/ip/address_key.ts";

/** With what right somebody says that addresses are an owner's; of several the highest counts. */
export const AddressRight = {
  /** The status of a pod: that which runs and is not about to end comes first (POL-57). */
  pod: (isRunning: boolean, isTerminating: boolean): number => (isRunning ? 1 : 0) + (isTerminating ? 0 : 2),
  /** A pod attached to this node, whatever the status of others says. */
  attachment: 4,
  /** A pod of its node's network (POL-54). */
  hostNetworkPod: 5,
  node: 6,
} as const;

export interface AddressClaim {
  /** Who has the addresses by it: a key of the caller's. */
  readonly owner: string;
  readonly right: number;
  readonly addresses: readonly Address[];
}

/**
 * Whose each address is: of all that are claimed for somebody, that of the highest right, then of the first owner by
 * name. A change costs what is claimed by the one who changed.
 */
export class AddressOwners {
  readonly #claims = new Map<string, AddressClaim>();
  /** By what each address is its owner's; by {@link addressKey}. */
  readonly #best = new Map<number | bigint, AddressClaim>();
  /** What else is claimed of an address, which is seldom, the next owner first. */
  readonly #others = new Map<number | bigint, readonly AddressClaim[]>();
  readonly #owned = new Map<string, readonly Address[]>();

  /**
   * Replaces what one source says; undefined withdraws it.
   *
   * @returns the owners who have other addresses now; of each address he who got it before him who lost it
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
    // Nearly always one has what is claimed for it, and one list is enough.
    const own = claim && this.#owned.get(claim.owner);
    if (claim !== undefined && own !== undefined && areSame(own, claim.addresses)) {
      this.#owned.set(claim.owner, claim.addresses);
    }
    return changed;
  }

  /** Undefined for an address that nobody claims. */
  ownerOf(address: Address): string | undefined {
    return this.#best.get(addressKey(address))?.owner;
  }

  /** Each once; the list is another one when they are others. */
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
