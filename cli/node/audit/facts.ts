import type { AttachmentRecord, UnreadableAttachment } from "../../../ipam/attachment.ts";
import type { Reservation } from "../../../ipam/reservation.ts";
import type { NodeLink, Seen } from "../doctor/facts.ts";
import type { NodePlace } from "../place.ts";

/** A record, and whether its sandbox has ended: its boot is over, or both its namespace and its link are gone (cni/gc/proof.ts). */
export interface AuditedRecord {
  readonly record: AttachmentRecord;
  readonly hasEnded: boolean;
  /** Whether daemon or plugin has marked it as ended (ipam/ended.ts). */
  readonly isMarked: boolean;
}

/** A reservation, and whether it was written long enough ago for its ADD to have come to an end. */
export interface AuditedReservation {
  readonly network: string;
  readonly reservation: Reservation;
  readonly path: string;
  readonly isOld: boolean;
}

/** The facts that an audit judges. */
export interface AuditFacts {
  readonly place: NodePlace;
  readonly links: Seen<readonly NodeLink[]>;
  readonly records: Seen<{
    readonly records: readonly AuditedRecord[];
    readonly unreadable: readonly UnreadableAttachment[];
  }>;
  readonly reservations: Seen<readonly AuditedReservation[]>;
  /** The host ends that elements of the plugin's own tables name. */
  readonly pluginOwners: Seen<ReadonlySet<string>>;
  /** Those that the daemon's guard names. */
  readonly guardOwners: Seen<ReadonlySet<string>>;
  /** Whether a process of the machine belongs to a container; unseen where only some of the processes can be seen. */
  readonly hasProcesses: Seen<(containerId: string) => boolean>;
}
