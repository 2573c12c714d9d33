import type { AttachmentRecord } from "../cni/attachment/attachment.ts";
import type { AttachmentName } from "../cni/attachment/policyd_messages.ts";
import type { ObjectChange } from "./objects/object_source.ts";

/** A part of the daemon that turns objects and attachments into kernel state. */
export interface Dataplane {
  /** Called when the daemon starts, to prepare what needs no objects. Nothing is programmed yet. */
  begin?(): void;
  /** Applies changed objects; nothing is programmed from them before {@link synced}. */
  apply(changes: readonly ObjectChange[]): void;
  /** Called when all objects have been applied once. */
  synced(): void;
  /** Resolves when policies apply to the attachment's packets. @throws DrawbridgeError */
  register(attachment: AttachmentRecord): Promise<void>;
  /** Resolves when nothing of the attachment remains. @throws DrawbridgeError */
  unregister(attachment: AttachmentName): Promise<void>;
  /** Returns what an unfinished registration waits for, in words; undefined where it waits for nothing. */
  awaits?(attachment: AttachmentRecord): string | undefined;
  /** Returns the current problems, for the status. */
  problems(): readonly string[];
  /** Stops programming the kernel; the rules in force stay. */
  stop(): Promise<void>;
}
