import { deserialize, serialize } from "node:v8";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { NetworkPolicy } from "../../../../objects/model.ts";

/** Fast rather than small: lists of addresses shrink to an eighth even so. */
const LEVEL = 1;

/** A policy that may be needed again, in compressed form outside of the heap. */
export interface PackedPolicy {
  readonly bytes: Uint8Array;
  /** The number of bytes before. */
  readonly size: number;
}

/** Packs a policy, whose lists of addresses take several times as much in the heap. */
export function packPolicy(policy: NetworkPolicy): PackedPolicy {
  const plain = serialize(policy);
  // A copy: the buffer of the compression is larger.
  return { bytes: Uint8Array.from(deflateRawSync(plain, { level: LEVEL })), size: plain.length };
}

/** Returns the policy as it was, but not frozen. @throws Error if something else was packed, which is a bug */
export function unpackPolicy({ bytes }: PackedPolicy): NetworkPolicy {
  const policy: unknown = deserialize(inflateRawSync(bytes));
  if (!isPolicy(policy)) throw new Error("a retained NetworkPolicy cannot be read");
  return policy;
}

/** Returns whether a value is a policy, as all that was packed: it has passed the gate. */
function isPolicy(value: unknown): value is NetworkPolicy {
  return typeof value === "object" && value !== null && "kind" in value && value.kind === "NetworkPolicy";
}
