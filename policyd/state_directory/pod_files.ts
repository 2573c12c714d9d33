import path from "node:path";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { listAttachmentNames } from "../../attachment/attachment_reader.ts";
import { writeAttachment } from "../../attachment/attachment_writer.ts";
import type { StoreFileSystem } from "../../ipam/file_system.ts";
import type { Owner } from "../../ipam/owner.ts";
import type { AddressStore } from "../../ipam/store.ts";
import type { FileSight } from "../../kernel/file.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import type { AttachmentRegistry } from "../attachments/registry.ts";
import { DirectoryChanges } from "./directory_changes.ts";

export interface PodFilesParts {
  readonly stateDirectory: string;
  readonly files: StoreFileSystem;
  /** Returns the identity and change time of the present directory; undefined where there is none. */
  readonly sightOf: (path: string) => FileSight | undefined;
  readonly attachments: Pick<AttachmentRegistry, "values">;
  /** Whether an attachment's link exists: DEL removes it before the record and the reservations. */
  readonly hasLink: (attachment: AttachmentRecord) => boolean;
  /** Returns the store of a network below a `dataDir`. */
  readonly storeOf: (network: string, dataDir: string) => Pick<AddressStore, "restore">;
}

/**
 * Restores the records of the node's pods, and the reservations of their addresses, when somebody removes one. Without
 * its reservation the next pod could get an address that another pod has. An unchanged directory is not listed.
 */
export class PodFiles {
  readonly #parts: PodFilesParts;
  /** The last observed state of each directory. */
  readonly #changes = new Map<string, DirectoryChanges>();
  /** The stores that have existed: where the daemon does not see the node's files, it creates none. */
  readonly #stores = new Set<string>();

  constructor(parts: PodFilesParts) {
    this.#parts = parts;
  }

  /** Writes the missing records. @returns their number @throws DrawbridgeError ERR_STORE */
  restoreRecords(): number {
    const { stateDirectory, files, attachments, hasLink } = this.#parts;
    let written = 0;
    for (const [network, records] of Map.groupBy(attachments.values(), (record) => record.network)) {
      if (!this.#hasChanged(`${stateDirectory}/attachments/${network}`)) continue;
      const names = new Set(listAttachmentNames(stateDirectory, network, files).map(nameOf));
      for (const record of records) {
        if (names.has(nameOf(record)) || !hasLink(record)) continue;
        writeAttachment(stateDirectory, record, files);
        written++;
      }
    }
    return written;
  }

  /** Writes the missing reservations. @returns their number @throws DrawbridgeError ERR_STORE */
  restoreReservations(): number {
    const { files, attachments, hasLink, storeOf } = this.#parts;
    let written = 0;
    for (const [store, records] of Map.groupBy(attachments.values(), storePath)) {
      const hasChanged = this.#hasChanged(store);
      if (files.directoryExists(path.dirname(store))) this.#stores.add(store);
      if (!hasChanged || !this.#stores.has(store)) continue;
      const names = new Set(files.readDirectory(store));
      for (const record of records) {
        const addresses = record.addresses.flatMap(({ address }) =>
          names.has(formatAddress(address)) ? [] : [address],
        );
        if (addresses.length === 0 || !hasLink(record)) continue;
        const { network, dataDir, containerId, ifname } = record;
        written += storeOf(network, dataDir).restore({ owner: { containerId, ifname }, addresses }, "kept");
      }
    }
    return written;
  }

  #hasChanged(directory: string): boolean {
    const changes = this.#changes.get(directory) ?? new DirectoryChanges();
    this.#changes.set(directory, changes);
    return changes.see(this.#parts.sightOf(directory)) !== "same";
  }
}

function nameOf({ containerId, ifname }: Owner): string {
  return `${containerId}:${ifname}`;
}

/** Returns the directory of the store in which a pod has its addresses. */
function storePath({ network, dataDir }: AttachmentRecord): string {
  return `${dataDir}/${network}`;
}
