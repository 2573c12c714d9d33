import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import type { Address } from "../../../kernel/ip/address.ts";

/** The addresses of this node and of its pods. */
export interface OwnAddresses {
  /** The key of the pod that has an address. */
  readonly podOf: (address: Address) => string | undefined;
  /** Whether an address is the node's own. */
  readonly isNode: (address: Address) => boolean;
}

/**
 * Returns the pod for which a connection counts: the one that began it or, if it comes from outside, the one that
 * receives it. So no pod uses up the share of another, and connections that the node begins count for nobody.
 */
export function ownerOf({ original, reply }: FlowTuples, { podOf, isNode }: OwnAddresses): string | undefined {
  const sender = podOf(original.source);
  if (sender !== undefined) return sender;
  const receiver = podOf(reply.source);
  return receiver === undefined || isNode(original.source) ? undefined : receiver;
}

/**
 * Whether a connection is beyond the given part of many connections that stays. The answer for one is always the same.
 *
 * @param salt another salt lets others stay
 */
export function isBeyond({ original }: FlowTuples, part: number, salt: number): boolean {
  const { sourcePort = 0, destinationPort = 0, source, destination } = original;
  const mixed = [salt, low(source), low(destination), sourcePort, destinationPort].reduce(
    (hash, value) => Math.imul(hash ^ value, 0x9e37_79b1) ^ (hash >>> 15),
    0x811c_9dc5,
  );
  return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32 >= part;
}

function low(address: Address): number {
  return typeof address === "bigint" ? Number(BigInt.asUintN(32, address ^ (address >> 32n))) : address;
}
