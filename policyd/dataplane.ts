import type { AttachmentRecord } from "../ipam/attachment.ts";
import type { AttachmentName } from "../ipam/policyd_messages.ts";
import type { ObjectChange } from "./source/object_source.ts";

/** What turns objects and attachments into what the kernel does: the part of the daemon that has an effect. */
export interface Dataplane {
  /** The daemon begins: what needs no objects can be made ready. Nothing is programmed yet. */
  begin?(): void;
  /** Objects changed; nothing is programmed from them before {@link synced}. */
  apply(changes: readonly ObjectChange[]): void;
  /** Everything there is has been applied once. */
  synced(): void;
  /** Settles when the attachment's packets are judged as its policies say. @throws DrawbridgeError */
  register(attachment: AttachmentRecord): Promise<void>;
  /** Settles when nothing of the attachment is left. @throws DrawbridgeError */
  unregister(attachment: AttachmentName): Promise<void>;
  /** What a registration that has not settled waits for, in words; undefined where it waits for nothing. */
  awaits?(attachment: AttachmentRecord): string | undefined;
  /** What is wrong now, for the status. */
  problems(): readonly string[];
  /** Lets go of the kernel; what is in force stays. */
  stop(): Promise<void>;
}
