import type { AttachmentRecord } from "../../ipam/attachment.ts";
import { listAttachmentNames, writeAttachment } from "../../ipam/attachment.ts";
import type { StoreFileSystem } from "../../ipam/file_system.ts";
import type { AttachmentRegistry } from "../attachments/registry.ts";

export interface KeptRecordsParts {
  readonly stateDirectory: string;
  readonly files: StoreFileSystem;
  /** When a directory was last changed; undefined where there is none. */
  readonly modificationTime: (path: string) => number | undefined;
  readonly attachments: Pick<AttachmentRegistry, "values">;
  /** Whether an attachment's link is there: DEL removes it before the record. */
  readonly hasLink: (attachment: AttachmentRecord) => boolean;
}

/** The records of the node's pods, which are written again when somebody removes one. */
export class KeptRecords {
  readonly #parts: KeptRecordsParts;
  /** When the directories of networks were last changed. */
  readonly #changed = new Map<string, number>();

  constructor(parts: KeptRecordsParts) {
    this.#parts = parts;
  }

  /**
   * Writes the records that are missing. A directory that has not changed since is not listed.
   *
   * @returns the number of records that were written
   * @throws DrawbridgeError ERR_STORE
   */
  look(): number {
    const { stateDirectory, files, modificationTime, attachments } = this.#parts;
    let written = 0;
    for (const [network, records] of Map.groupBy(attachments.values(), (record) => record.network)) {
      const directory = `${stateDirectory}/attachments/${network}`;
      const changedAt = modificationTime(directory);
      if (changedAt !== undefined && changedAt === this.#changed.get(network)) continue;
      const names = new Set(
        listAttachmentNames(stateDirectory, network, files).map(
          ({ containerId, ifname }) => `${containerId}:${ifname}`,
        ),
      );
      for (const record of records) {
        if (names.has(`${record.containerId}:${record.ifname}`) || !this.#parts.hasLink(record)) continue;
        writeAttachment(stateDirectory, record, files);
        written++;
      }
      if (changedAt === undefined || written > 0) this.#changed.delete(network);
      else this.#changed.set(network, changedAt);
    }
    return written;
  }
}
