import { type Cidr, networkAddress } from "../../kernel/ip/cidr.ts";
import { OverlapIndex, type Prefixed } from "./overlap_index.ts";

/** A prefix that a node claims; an address is a prefix of full length. */
interface CidrClaim extends Prefixed {
  readonly node: string;
}

/** An index of the prefixes that nodes claim. It finds all nodes that a change concerns without checking the others. */
export class NodeClaimIndex {
  readonly #claims = new Map<string, readonly CidrClaim[]>();
  readonly #index = new OverlapIndex<CidrClaim>();

  /** Sets a node's claims; an empty list removes them. */
  set(node: string, cidrs: readonly Cidr[]): void {
    const claims = cidrs.map((cidr) => ({ node, cidr, first: networkAddress(cidr) }));
    for (const claim of this.#claims.get(node) ?? []) this.#index.delete(claim);
    for (const claim of claims) this.#index.add(claim);
    if (claims.length === 0) this.#claims.delete(node);
    else this.#claims.set(node, claims);
  }

  /** Returns the nodes with a prefix that overlaps one of a node's; includes the node itself if it has any. */
  touching(node: string): ReadonlySet<string> {
    const found = new Set<string>();
    for (const claim of this.#claims.get(node) ?? []) {
      for (const other of this.#index.from(claim)) found.add(other.node);
      for (const other of this.#index.around(claim)) found.add(other.node);
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
