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

/** A prefix that a node claims; an address is a prefix of full length. */
interface CidrClaim extends Prefixed {
  readonly node: string;
  /** Whether it is an ExternalIP, which affects no other node's: many nodes may name the same one. */
  readonly isExternal: boolean;
}

/** An index of the prefixes that nodes claim. It finds all nodes that a change concerns without checking the others. */
export class NodeClaimIndex {
  readonly #claims = new Map<string, readonly CidrClaim[]>();
  readonly #index = new OverlapIndex<CidrClaim>();

  /** Sets a node's claims and its ExternalIPs; empty lists remove them. */
  set(node: string, cidrs: readonly Cidr[], external: readonly Cidr[]): void {
    const claimTo = (cidr: Cidr, isExternal: boolean): CidrClaim => ({
      node,
      cidr,
      first: networkAddress(cidr),
      isExternal,
    });
    const claims = [...cidrs.map((cidr) => claimTo(cidr, false)), ...external.map((cidr) => claimTo(cidr, true))];
    for (const claim of this.#claims.get(node) ?? []) this.#index.delete(claim);
    for (const claim of claims) this.#index.add(claim);
    if (claims.length === 0) this.#claims.delete(node);
    else this.#claims.set(node, claims);
  }

  /** Returns the nodes with a prefix that overlaps one of a node's, unless both are ExternalIPs. */
  touching(node: string): ReadonlySet<string> {
    const found = new Set<string>();
    for (const claim of this.#claims.get(node) ?? []) {
      for (const other of [...this.#index.from(claim), ...this.#index.around(claim)]) {
        if (!claim.isExternal || !other.isExternal) found.add(other.node);
      }
    }
    return found;
  }

  /**
   * Returns some nodes, the nodes whose prefixes overlap theirs, the nodes whose prefixes overlap those, and so on. The
   * verdict on them depends on no other node.
   *
   * @returns undefined for more than `most` nodes
   */
  together(nodes: Iterable<string>, most: number): ReadonlySet<string> | undefined {
    const found = new Set(nodes);
    // The iteration of a Set also visits the values added during it.
    for (const node of found) {
      if (found.size > most) return undefined;
      for (const other of this.touching(node)) found.add(other);
    }
    return found;
  }
}
