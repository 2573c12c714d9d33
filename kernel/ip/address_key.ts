import type { Address } from "./address.ts";

/** An odd number without a pattern: 2^64 divided by the golden ratio. */
const SPREAD = 0x9e37_79b9_7f4a_7c15n;

/**
 * Returns the key of an address in a large Map or Set. Different addresses have different keys.
 *
 * V8 hashes a BigInt by its low 64 bits (BigInt::Hash, src/objects/bigint.h). These are zero in all networks up to /64,
 * and equal in the first pods of all nodes: without a key, thousands of such addresses would share one bucket, which
 * every lookup searches one by one. So the key mixes the high half into the low one, and keeps the high half.
 */
export function addressKey(address: Address): number | bigint {
  return typeof address === "number" ? address : address ^ BigInt.asUintN(64, (address >> 64n) * SPREAD);
}
