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

/** A pod of this node whose connections are counted. */
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
