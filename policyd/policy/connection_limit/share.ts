import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import type { Address } from "../../../kernel/ip/address.ts";

/** Whose addresses are on this node. */
export interface OwnAddresses {
  /** The key of the pod that has an address. */
  readonly podOf: (address: Address) => string | undefined;
  /** The node's own. */
  readonly isNode: (address: Address) => boolean;
}

/**
 * For which pod a connection counts: who began it or, where it comes from outside, whom it is for. So no pod uses up
 * what another one of the node may have, and what the node itself begins is nobody's.
 */
export function ownerOf({ original, reply }: FlowTuples, { podOf, isNode }: OwnAddresses): string | undefined {
  const sender = podOf(original.source);
  if (sender !== undefined) return sender;
  const receiver = podOf(reply.source);
  return receiver === undefined || isNode(original.source) ? undefined : receiver;
}

/**
 * Whether a connection is not among those that stay when of many a part does. The same of each, whenever it is asked.
 *
 * @param salt with another one others stay
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
