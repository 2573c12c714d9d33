import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import type { UnreadableAttachment } from "../../../attachment/attachment_reader.ts";
import type { Reservation } from "../../../ipam/reservation.ts";
import type { CheckedLink, Seen } from "../../../policyd/problems/check.ts";
import type { NodePlace } from "../place.ts";

/** A record, and whether its sandbox has ended: an earlier boot, or no namespace and no link (cni/gc/proof.ts). */
export interface AuditedRecord {
  readonly record: AttachmentRecord;
  readonly hasEnded: boolean;
  /** Whether the daemon or the plugin has marked it as ended (attachment/ended.ts). */
  readonly isMarked: boolean;
}

/** A reservation, and whether it is so old that its ADD must have ended. */
export interface AuditedReservation {
  readonly network: string;
  readonly reservation: Reservation;
  readonly path: string;
  readonly isOld: boolean;
}

/** The facts that an audit evaluates. */
export interface AuditFacts {
  readonly place: NodePlace;
  readonly links: Seen<readonly CheckedLink[]>;
  readonly records: Seen<{
    readonly records: readonly AuditedRecord[];
    readonly unreadable: readonly UnreadableAttachment[];
  }>;
  readonly reservations: Seen<readonly AuditedReservation[]>;
  /** The host interfaces that elements of the plugin's own tables name. */
  readonly pluginOwners: Seen<ReadonlySet<string>>;
  /** The host interfaces that the daemon's guard names. */
  readonly guardOwners: Seen<ReadonlySet<string>>;
  /** Returns whether a process of the machine belongs to a container; unseen where only some processes are visible. */
  readonly hasProcesses: Seen<(containerId: string) => boolean>;
}

/** Returns what two reads of a node agree about: things that are in both, and every record that either has. */
export function lastingFacts(first: AuditFacts, second: AuditFacts): AuditFacts {
  return {
    ...second,
    links: both(first.links, second.links, (one, other) => {
      const names = new Set(one.map(({ name }) => name));
      return other.filter(({ name }) => names.has(name));
    }),
    reservations: both(first.reservations, second.reservations, (one, other) => {
      const paths = new Set(one.map(({ path }) => path));
      return other.filter(({ path }) => paths.has(path));
    }),
    pluginOwners: both(first.pluginOwners, second.pluginOwners, inBoth),
    guardOwners: both(first.guardOwners, second.guardOwners, inBoth),
    records: both(first.records, second.records, (one, other) => ({
      records: lastingRecords(one.records, other.records),
      unreadable: other.unreadable.filter(({ path }) => one.unreadable.some((each) => each.path === path)),
    })),
  };
}

function inBoth(one: ReadonlySet<string>, other: ReadonlySet<string>): ReadonlySet<string> {
  return new Set([...other].filter((name) => one.has(name)));
}

/** Marks a record as ended only if both reads say so; one that only one read has belongs to a call in progress. */
function lastingRecords(one: readonly AuditedRecord[], other: readonly AuditedRecord[]): readonly AuditedRecord[] {
  const [before, now] = [one, other].map((records) => new Map(records.map((each) => [keyOf(each), each])));
  return [...new Map([...(before ?? []), ...(now ?? [])])].map(([key, latest]) => {
    const [earlier, later] = [before?.get(key), now?.get(key)];
    const isInBoth = (holds: (record: AuditedRecord) => boolean): boolean =>
      earlier !== undefined && later !== undefined && holds(earlier) && holds(later);
    return {
      record: latest.record,
      hasEnded: isInBoth(({ hasEnded }) => hasEnded),
      isMarked: isInBoth(({ isMarked }) => isMarked),
    };
  });
}

function keyOf({ record: { network, containerId, ifname } }: AuditedRecord): string {
  return `${network}/${containerId}:${ifname}`;
}

/** Joins two facts. @returns why something was not seen, where that applies to either */
function both<T>(first: Seen<T>, second: Seen<T>, join: (one: T, other: T) => T): Seen<T> {
  if (!("value" in first)) return first;
  return "value" in second ? { value: join(first.value, second.value) } : second;
}
