import type { AttachmentRecord, UnreadableAttachment } from "../../../attachment/attachment.ts";
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
