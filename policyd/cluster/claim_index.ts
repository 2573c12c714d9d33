import type { Cidr } from "../../kernel/ip/cidr.ts";
import { networkAddress } from "../../kernel/ip/cidr.ts";
import type { Prefixed } from "./overlap_index.ts";
import { OverlapIndex } from "./overlap_index.ts";

/** One prefix that a node claims, an address as one of full length. */
interface Claim extends Prefixed {
  readonly node: string;
}

/** The prefixes that nodes claim, so that those of a change find all nodes that they concern without a look at the rest. */
export class ClaimIndex {
  readonly #claims = new Map<string, readonly Claim[]>();
  readonly #index = new OverlapIndex<Claim>();

  /** Sets what a node claims; an empty list forgets it. */
  set(node: string, cidrs: readonly Cidr[]): void {
    const claims = cidrs.map((cidr) => ({ node, cidr, first: networkAddress(cidr) }));
    for (const claim of this.#claims.get(node) ?? []) this.#index.delete(claim);
    for (const claim of claims) this.#index.add(claim);
    if (claims.length === 0) this.#claims.delete(node);
    else this.#claims.set(node, claims);
  }

  /** The nodes with a prefix that overlaps one of a node, itself among them if it has any. */
  touching(node: string): ReadonlySet<string> {
    const found = new Set<string>();
    for (const claim of this.#claims.get(node) ?? []) {
      for (const other of this.#index.from(claim)) found.add(other.node);
      for (const other of this.#index.around(claim)) found.add(other.node);
    }
    return found;
  }

  /**
   * Some nodes, and those with prefixes that overlap theirs, and those with prefixes that overlap these, and so on: what is
   * believed of them depends on nobody else.
   *
   * @returns undefined where they are more than `most`
   */
  together(nodes: Iterable<string>, most: number): ReadonlySet<string> | undefined {
    const found = new Set(nodes);
    // A Set tells whoever goes through it of what is added meanwhile, too.
    for (const node of found) {
      if (found.size > most) return undefined;
      for (const other of this.touching(node)) found.add(other);
    }
    return found;
  }
}
