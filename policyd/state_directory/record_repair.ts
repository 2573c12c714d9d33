import { type AttachmentRecord, listAttachmentNames } from "../../attachment/attachment.ts";
import { writeAttachment } from "../../attachment/attachment_writer.ts";
import type { StoreFileSystem } from "../../ipam/file_system.ts";
import type { FileSight } from "../../kernel/file.ts";
import type { AttachmentRegistry } from "../attachments/registry.ts";
import { DirectoryChanges } from "./directory_changes.ts";

export interface RecordRepairParts {
  readonly stateDirectory: string;
  readonly files: StoreFileSystem;
  /** Returns the identity and change time of the present directory; undefined where there is none. */
  readonly sightOf: (path: string) => FileSight | undefined;
  readonly attachments: Pick<AttachmentRegistry, "values">;
  /** Whether an attachment's link exists: DEL removes it before the record. */
  readonly hasLink: (attachment: AttachmentRecord) => boolean;
}

/** Restores the records of the node's pods when somebody removes one. */
export class RecordRepair {
  readonly #parts: RecordRepairParts;
  /** The last observed state of each network's directory. */
  readonly #changes = new Map<string, DirectoryChanges>();

  constructor(parts: RecordRepairParts) {
    this.#parts = parts;
  }

  /**
   * Writes the missing records. An unchanged directory is not listed.
   *
   * @returns the number of records written
   * @throws DrawbridgeError ERR_STORE
   */
  look(): number {
    let written = 0;
    for (const network of this.#networks()) {
      const changes = this.#changes.get(network) ?? new DirectoryChanges();
      this.#changes.set(network, changes);
      const directory = `${this.#parts.stateDirectory}/attachments/${network}`;
      if (changes.see(this.#parts.sightOf(directory)) !== "same") written += this.#write(network);
    }
    return written;
  }

  #networks(): ReadonlySet<string> {
    const networks = new Set<string>();
    for (const { network } of this.#parts.attachments.values()) networks.add(network);
    return networks;
  }

  #write(network: string): number {
    const { stateDirectory, files, attachments, hasLink } = this.#parts;
    let written = 0;
    const names = new Set(
      listAttachmentNames(stateDirectory, network, files).map(({ containerId, ifname }) => `${containerId}:${ifname}`),
    );
    for (const record of attachments.values()) {
      if (record.network !== network) continue;
      if (names.has(`${record.containerId}:${record.ifname}`) || !hasLink(record)) continue;
      writeAttachment(stateDirectory, record, files);
      written++;
    }
    return written;
  }
}
