import { type Address, addressFromBytes, bitsOf, familyOf, FAMILIES } from "../../kernel/ip/address.ts";
import { addressKey } from "../../kernel/ip/address_key.ts";
import { type Cidr, networkAddress } from "../../kernel/ip/cidr.ts";
import type { Route } from "../../kernel/route/route.ts";

/** Finds the route that an address takes: the longest prefix, and among equal prefixes the lowest metric. */
export class RouteLookup {
  readonly #routes = new Map<number, Map<number | bigint, Route>>();
  /** The prefix lengths in use, by family, the longest first. */
  readonly #lengths = new Map<4 | 6, readonly number[]>();

  /** @param routes a route without a destination is a default route */
  constructor(routes: readonly Route[]) {
    const lengths = { 4: new Set<number>(), 6: new Set<number>() };
    for (const route of routes) {
      const length = route.destination?.prefixLength ?? 0;
      lengths[route.family].add(length);
      const key = lengthKey(route.family, length);
      const ofLength = this.#routes.get(key) ?? new Map<number | bigint, Route>();
      this.#routes.set(key, ofLength);
      const { destination } = route;
      const network = addressKey(destination === undefined ? zero(route.family) : networkAddress(destination));
      const known = ofLength.get(network);
      if (known === undefined || route.priority < known.priority) ofLength.set(network, route);
    }
    for (const family of FAMILIES)
      this.#lengths.set(
        family,
        [...lengths[family]].sort((a, b) => b - a),
      );
  }

  /** Returns the route of an address; undefined without one. */
  of(address: Address): Route | undefined {
    return this.#find(address, bitsOf(familyOf(address)));
  }

  /** Returns the longest route that covers all of a prefix; undefined without one. */
  ofAll(cidr: Cidr): Route | undefined {
    return this.#find(cidr.address, cidr.prefixLength);
  }

  #find(address: Address, longest: number): Route | undefined {
    const family = familyOf(address);
    for (const prefixLength of this.#lengths.get(family) ?? []) {
      if (prefixLength > longest) continue;
      const network = addressKey(networkAddress({ address, prefixLength }));
      const found = this.#routes.get(lengthKey(family, prefixLength))?.get(network);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

function lengthKey(family: 4 | 6, length: number): number {
  return family * 1000 + length;
}

function zero(family: 4 | 6): Address {
  return addressFromBytes(new Uint8Array(bitsOf(family) / 8));
}
