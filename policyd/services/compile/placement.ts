import { jenkinsHash } from "./jenkins_hash.ts";
import type { SocketAddress } from "./socket_address.ts";
import { compareSockets, socketBytes } from "./socket_address.ts";

const SEED = 0x5e1ec7ed;

/** An endpoint and its number. */
export interface Placed<E> {
  readonly endpoint: E;
  readonly slot: number;
}

/**
 * Gives each endpoint a number below `slots` of its own: the one its address and port hash to, or the next free one.
 *
 * The result depends on the set of endpoints alone, never on their order or on what was before; so what a daemon
 * programs after many changes is what another one programs after a start. When an endpoint comes or goes, the others
 * keep their numbers but for the few that had to step aside for it. The first of the result is the same as long as it stays.
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

/** Follows the chain of those taken, and shortens it for the next who come along. */
function firstFree(next: Map<number, number>, wanted: number): number {
  let free = wanted;
  for (let after = next.get(free); after !== undefined; after = next.get(free)) {
    const beyond = next.get(after);
    if (beyond !== undefined) next.set(free, beyond);
    free = after;
  }
  return free;
}
