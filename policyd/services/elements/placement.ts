import { jenkinsHash } from "../rules/jenkins_hash.ts";
import { compareSockets, type SocketAddress, socketBytes } from "./socket_address.ts";

const SEED = 0x5e1ec7ed;

export interface Placed<E> {
  readonly endpoint: E;
  readonly slot: number;
}

/**
 * Gives each endpoint a different number below `slots`: the one its address and port hash to, or the next free one.
 *
 * The result only depends on the set of endpoints, never on their order or on earlier states; so what a daemon programs
 * after many changes is what another one programs after a start. When an endpoint comes or goes, the others keep their
 * numbers, except the few that had to give way to it. The first of the result is the same as long as it exists.
 *
 * @param endpoints different ones, at most `slots`
 */
export function place<E extends SocketAddress>(endpoints: readonly E[], slots: number): readonly Placed<E>[] {
  const placed = endpoints.map((endpoint) => ({ endpoint, hash: jenkinsHash(socketBytes(endpoint), SEED), slot: 0 }));
  placed.sort((a, b) => a.hash - b.hash || compareSockets(a.endpoint, b.endpoint));
  const next = new Map<number, number>();
  for (const one of placed) {
    one.slot = firstFree(next, one.hash % slots);
    next.set(one.slot, (one.slot + 1) % slots);
  }
  return placed;
}

/** Follows the chain of taken numbers to the first free one, and shortens it for later calls. */
function firstFree(next: Map<number, number>, wanted: number): number {
  let free = wanted;
  for (let after = next.get(free); after !== undefined; after = next.get(free)) {
    const beyond = next.get(after);
    if (beyond !== undefined) next.set(free, beyond);
    free = after;
  }
  return free;
}
