import { type Address, addressPlus, compareAddresses, formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, networkAddress } from "../../kernel/ip/cidr.ts";
import { type AddressRange, rangeOf, unitedRanges, withoutRanges } from "../../kernel/ip/ranges.ts";
import { ByAddress } from "./by_address.ts";
import { OverlapIndex, type Prefixed } from "./overlap_index.ts";

/** Ranges that no longer exist, and new ones. */
export interface RangeDifference {
  readonly removed: readonly AddressRange[];
  readonly added: readonly AddressRange[];
}

/**
 * Joins the networks of several owners into ranges that neither overlap nor touch (joinedRanges). A network that comes
 * or goes costs only the ranges beside it and in it.
 */
export class JoinedNetworks {
  readonly #owned = new Map<string, readonly Prefixed[]>();
  readonly #networks = new OverlapIndex<Prefixed>();
  readonly #joined = new ByAddress<AddressRange>(({ first }) => first);
  /** The changes since the last {@link difference}, by the ranges' texts. */
  readonly #removed = new Map<string, AddressRange>();
  readonly #added = new Map<string, AddressRange>();

  /** Sets the networks of an owner; an empty list removes them. */
  set(owner: string, cidrs: readonly Cidr[]): void {
    for (const network of this.#owned.get(owner) ?? []) this.#leave(network);
    const networks = cidrs.map((cidr) => ({ cidr, first: networkAddress(cidr) }));
    for (const network of networks) this.#enter(network);
    if (networks.length === 0) this.#owned.delete(owner);
    else this.#owned.set(owner, networks);
  }

  /** Returns the changes of the ranges since the last call; at the first call all are new. */
  difference(): RangeDifference {
    const difference = { removed: [...this.#removed.values()], added: [...this.#added.values()] };
    this.#removed.clear();
    this.#added.clear();
    return difference;
  }

  #enter(network: Prefixed): void {
    this.#networks.add(network);
    const range = rangeOf(network.cidr);
    const near = this.#near(range);
    if (near.some((one) => isIn(range, one))) return;
    for (const one of near) this.#remove(one);
    for (const one of unitedRanges([range, ...near])) this.#add(one);
  }

  #leave(network: Prefixed): void {
    this.#networks.delete(network);
    if (this.#networks.around(network).length > 0) return;
    const range = rangeOf(network.cidr);
    const left = unitedRanges(this.#networks.from(network).map(({ cidr }) => rangeOf(cidr)));
    // The rest of the joined range is due to other networks: of two networks that overlap one holds the other.
    for (const one of this.#near(range).filter((joined) => isIn(range, joined))) {
      this.#remove(one);
      for (const rest of unitedRanges([...withoutRanges([one], [range]), ...left])) this.#add(rest);
    }
  }

  /** Returns the joined ranges that overlap or touch a range. */
  #near({ first, last }: AddressRange): readonly AddressRange[] {
    // Joined ranges are apart, so of those that begin before it only the last one can reach it.
    const around = this.#joined.at(this.#joined.placeOf(first) - 1);
    const before = addressPlus(first, -1n);
    const isBeside = around !== undefined && before !== undefined && isInside(before, around);
    return [...(isBeside ? [around] : []), ...this.#joined.between(first, addressPlus(last, 1n) ?? last)];
  }

  #add(range: AddressRange): void {
    this.#joined.add(range);
    const text = rangeText(range);
    if (!this.#removed.delete(text)) this.#added.set(text, range);
  }

  #remove(range: AddressRange): void {
    this.#joined.delete(range);
    const text = rangeText(range);
    if (!this.#added.delete(text)) this.#removed.set(text, range);
  }
}

function isIn(range: AddressRange, other: AddressRange): boolean {
  return isInside(range.first, other) && isInside(range.last, other);
}

/** Whether an address is in a range; never true across families, since all of one are before all of the other. */
function isInside(address: Address, { first, last }: AddressRange): boolean {
  return compareAddresses(first, address) <= 0 && compareAddresses(address, last) <= 0;
}

/** Returns a text that identifies a range. */
export function rangeText({ first, last }: AddressRange): string {
  return `${formatAddress(first)}-${formatAddress(last)}`;
}
