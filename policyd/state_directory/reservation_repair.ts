import type { AttachmentRecord } from "../../attachment/attachment.ts";
import type { StoreFileSystem } from "../../ipam/file_system.ts";
import type { AddressStore } from "../../ipam/store.ts";
import type { FileSight } from "../../kernel/file.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import type { AttachmentRegistry } from "../attachments/registry.ts";
import { DirectoryChanges } from "./directory_changes.ts";

export interface ReservationRepairParts {
  readonly files: Pick<StoreFileSystem, "readDirectory" | "directoryExists">;
  /** Returns the identity and change time of the present directory; undefined where there is none. */
  readonly sightOf: (path: string) => FileSight | undefined;
  readonly attachments: Pick<AttachmentRegistry, "values">;
  /** Whether an attachment's link exists: DEL removes it before it releases the addresses. */
  readonly hasLink: (attachment: AttachmentRecord) => boolean;
  /** Returns the store of a network below a `dataDir`. */
  readonly storeOf: (network: string, dataDir: string) => Pick<AddressStore, "restore">;
}

/** The store of one network, as last seen. */
interface Kept {
  readonly network: string;
  readonly dataDir: string;
  readonly changes: DirectoryChanges;
  /** Whether it has ever existed: where the daemon does not see the node's files, it creates none. */
  wasSeen: boolean;
}

/**
 * Restores the reservations of running pods' addresses when somebody removes one. Otherwise the next pod could get an
 * address that another pod has.
 */
export class ReservationRepair {
  readonly #parts: ReservationRepairParts;
  readonly #kept = new Map<string, Kept>();

  constructor(parts: ReservationRepairParts) {
    this.#parts = parts;
  }

  /**
   * Writes the missing reservations. An unchanged directory is not listed.
   *
   * @returns the number of reservations written
   * @throws DrawbridgeError ERR_STORE
   */
  look(): number {
    let written = 0;
    for (const kept of this.#stores()) {
      const seen = kept.changes.see(this.#parts.sightOf(`${kept.dataDir}/${kept.network}`));
      kept.wasSeen ||= seen !== "missing" || this.#parts.files.directoryExists(kept.dataDir);
      if (seen !== "same" && kept.wasSeen) written += this.#write(kept);
    }
    return written;
  }

  /** Returns the stores in which pods have addresses. */
  #stores(): ReadonlySet<Kept> {
    const stores = new Set<Kept>();
    let last: Kept | undefined;
    for (const { network, dataDir } of this.#parts.attachments.values()) {
      // Nearly all pods of a node belong to one network.
      if (last?.network === network && last.dataDir === dataDir) continue;
      const key = `${dataDir}/${network}`;
      last = this.#kept.get(key) ?? { network, dataDir, changes: new DirectoryChanges(), wasSeen: false };
      this.#kept.set(key, last);
      stores.add(last);
    }
    return stores;
  }

  #write({ network, dataDir }: Kept): number {
    const { files, attachments, hasLink, storeOf } = this.#parts;
    const names = new Set(files.readDirectory(`${dataDir}/${network}`));
    const store = storeOf(network, dataDir);
    let written = 0;
    for (const record of attachments.values()) {
      if (record.network !== network || record.dataDir !== dataDir) continue;
      const addresses = record.addresses.flatMap(({ address }) => (names.has(formatAddress(address)) ? [] : [address]));
      if (addresses.length === 0 || !hasLink(record)) continue;
      const { containerId, ifname } = record;
      written += store.restore({ owner: { containerId, ifname }, addresses }, "kept");
    }
    return written;
  }
}
