import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import type { Address } from "../../../kernel/ip/address.ts";

/**
 * Returns the most that each user may have so that all together fit into the room; Infinity if they fit anyway. A user
 * with less keeps all of it, so the largest users give first, be they two or two hundred.
 *
 * @param counts what each user has, in any order
 */
export function fairShare(counts: readonly number[], room: number): number {
  const ascending = counts.toSorted((a, b) => a - b);
  let left = room;
  for (const [i, count] of ascending.entries()) {
    const users = ascending.length - i;
    if (count * users > left) return Math.max(0, Math.floor(left / users));
    left -= count;
  }
  return Number.POSITIVE_INFINITY;
}

/** A pod whose connections are counted. */
export interface CountedPod {
  /** Unique among the pods. */
  readonly key: string;
  /** Its name in Kubernetes; undefined if it has none. */
  readonly name: AttachmentRecord["pod"] | undefined;
  /** All of its addresses, of both families and of all its networks. */
  readonly addresses: readonly Address[];
}

/** The fields of an attachment that show to which pod addresses belong. */
export type CountedAttachment = Pick<AttachmentRecord, "containerId" | "pod" | "addresses">;

/** Returns the pods of attachments: those of one sandbox belong to one pod, however many networks it has. */
export function podsOf(attachments: Iterable<CountedAttachment>): readonly CountedPod[] {
  const pods = new Map<string, CountedPod>();
  for (const { containerId, pod, addresses } of attachments) {
    const known = pods.get(containerId);
    pods.set(containerId, {
      key: containerId,
      name: known?.name ?? pod,
      addresses: [...(known?.addresses ?? []), ...addresses.map(({ address }) => address)],
    });
  }
  return [...pods.values()];
}

/** The addresses of this node and of pods. */
export interface OwnAddresses {
  /** The key of the pod of this node that has an address. */
  readonly podOf: (address: Address) => string | undefined;
  /** The key of the pod of any node that has an address. */
  readonly senderOf: (address: Address) => string | undefined;
  /** Whether an address is the node's own. */
  readonly isNode: (address: Address) => boolean;
}

/**
 * Returns the pod for which a connection counts: the one that began it, on whatever node it is, or, if it comes from
 * outside of the cluster, the one that receives it. So no pod uses up the share of another, as clients would use up that
 * of the cluster's DNS. Connections that the node begins count for nobody.
 */
export function ownerOf({ original, reply }: FlowTuples, own: OwnAddresses): string | undefined {
  // The node comes first: its bridge has an address in the pod network.
  return own.isNode(original.source) ? undefined : (own.senderOf(original.source) ?? own.podOf(reply.source));
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
