import type { Address } from "./address.ts";

/** An odd number without pattern: 2^64 divided by the golden ratio. */
const SPREAD = 0x9e37_79b9_7f4a_7c15n;

/**
 * The key of an address in a large Map or Set: another one for each address.
 *
 * V8 hashes a BigInt by its low 64 bits (BigInt::Hash, src/objects/bigint.h). All networks up to /64 have none of them set,
 * and the first pods of all nodes the same: by themselves thousands of such addresses would stand in one row of the table,
 * which each look goes through one by one. So the low half is mixed with the high one, which stays as it is.
 */
export function addressKey(address: Address): number | bigint {
  return typeof address === "number" ? address : address ^ BigInt.asUintN(64, (address >> 64n) * SPREAD);
}
