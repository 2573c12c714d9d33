import type { AttachmentRecord } from "../../../ipam/attachment.ts";
import type { Address } from "../../../kernel/ip/address.ts";

/**
 * Returns the most that each user may have so that all together have no more than there is room for; Infinity where they have no more
 * anyway. A user with less keeps all of it, so the largest users give first, be they two or two hundred.
 *
 * @param counts what each has, in any order
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

/** A pod of this node, as connections count for it. */
export interface CountedPod {
  /** No other pod's. */
  readonly key: string;
  /** Kubernetes' name of it; undefined where it has none. */
  readonly name: AttachmentRecord["pod"] | undefined;
  /** All of its addresses, of both families and of all its networks. */
  readonly addresses: readonly Address[];
}

/** An attachment, as far as it says whose addresses are whose. */
export type CountedAttachment = Pick<AttachmentRecord, "containerId" | "pod" | "addresses">;

/** Returns the pods of attachments: those of one sandbox are one pod's, however many networks it has. */
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
