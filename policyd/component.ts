import type { AttachmentRecord } from "../attachment/attachment.ts";
import type { AttachmentName } from "../attachment/policyd_messages.ts";
import type { ObjectChange } from "../objects/model.ts";

/** Forgets attachments, in all parts of the daemon. */
export interface Forgetter {
  /** Resolves when nothing of the attachment remains. @throws DrawbridgeError (rejects) */
  unregister(attachment: AttachmentName): Promise<unknown>;
}

/** The life of a part of the daemon. A component has the methods that it needs. */
export interface Lifecycle {
  /** Called when the daemon starts, to prepare what needs no objects. Nothing is programmed yet. */
  begin?(daemon: Forgetter): void;
  /** Called when all objects have been applied once. */
  synced?(): void;
  /** Returns the current problems, for the status. */
  problems?(): readonly string[];
  /** Stops programming the kernel; the rules in force stay. */
  stop?(): Promise<void>;
}

/** A component that follows the objects of the cluster. */
export interface ObjectConsumer extends Lifecycle {
  /** Applies changed objects; nothing is programmed from them before {@link Lifecycle.synced}. */
  apply(changes: readonly ObjectChange[]): void;
}

/** A component that an ADD, a DEL or both wait for. */
export interface PodGate extends Lifecycle {
  /** Resolves when the component is ready for the attachment's packets. @throws DrawbridgeError */
  register?(attachment: AttachmentRecord): Promise<void>;
  /** Resolves when nothing of the attachment remains. @throws DrawbridgeError */
  unregister?(attachment: AttachmentName): Promise<void>;
  /** Returns what an unfinished registration waits for, in words; undefined where it waits for nothing. */
  awaits?(attachment: AttachmentRecord): string | undefined;
}

/** A part of the daemon, with the methods that it needs. */
export type Component = Partial<ObjectConsumer> & PodGate;

/** A condition for health; `missing` returns why it does not hold, undefined where it does. */
export interface Condition {
  readonly name: string;
  readonly missing: () => string | undefined;
}
