import { uptime } from "../../cni/status/failure_record.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { endedSince, forgetEnded, markEnded } from "../../attachment/ended.ts";
import type { FileReadCalls } from "../../kernel/syscall/file_calls.ts";
import type { RecordPlace } from "./registry.ts";

/** The marks of attachments whose sandbox has ended without DEL. */
export interface EndedMarks {
  /**
   * Marks an attachment, if it is not marked yet.
   *
   * @returns the seconds since it was marked
   * @throws DrawbridgeError ERR_STORE
   */
  mark(attachment: AttachmentRecord): number;
  isMarked(attachment: AttachmentRecord): boolean;
  /** @throws DrawbridgeError ERR_STORE */
  clear(attachment: AttachmentRecord): void;
}

/** Returns marks that are files beside the records (attachment/ended.ts), where the next daemon and the plugin find them. */
export function markFiles(
  { stateDirectory, files }: Pick<RecordPlace, "stateDirectory" | "files">,
  syscalls: FileReadCalls,
): EndedMarks {
  return {
    mark: (attachment) => {
      const seconds = uptime({ syscalls });
      if (seconds === undefined) return 0;
      const moment = { bootId: attachment.bootId, seconds };
      return seconds - markEnded(stateDirectory, attachment.network, attachment, moment, files);
    },
    isMarked: (attachment) => endedSince(stateDirectory, attachment, files) !== undefined,
    clear: (attachment) => forgetEnded(stateDirectory, attachment.network, attachment, files),
  };
}
