import type { Address } from "../../kernel/ip/address.ts";
import type { Pod } from "../../objects/model.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { listAttachments, recordedNetworks } from "../../attachment/attachment_reader.ts";
import type { StoreFileSystem } from "../../ipam/file_system.ts";
import type { AttachmentName } from "../../attachment/policyd_messages.ts";

/** The place of the attachment records, and the boot that they must be of. */
export interface RecordPlace {
  /** Usually `/run/drawbridge`. */
  readonly stateDirectory: string;
  readonly bootId: string;
  readonly files: StoreFileSystem;
}

/** The attachments of this node, from the plugin's records and its registrations. */
export class AttachmentRegistry {
  readonly #records = new Map<string, AttachmentRecord>();
  readonly #earlier = new Set<string>();

  get size(): number {
    return this.#records.size;
  }

  values(): Iterable<AttachmentRecord> {
    return this.#records.values();
  }

  get(name: AttachmentName): AttachmentRecord | undefined {
    return this.#records.get(attachmentKey(name));
  }

  /** Adds an attachment; one with the same names is replaced. */
  add(record: AttachmentRecord): void {
    this.#records.set(attachmentKey(record), record);
  }

  /** Whether an attachment had a record when this daemon started. @param key its {@link attachmentKey} */
  isEarlier(key: string): boolean {
    return this.#earlier.has(key);
  }

  /** Returns the attachment that is now gone, undefined if there was none. */
  remove(name: AttachmentName): AttachmentRecord | undefined {
    const record = this.get(name);
    this.#records.delete(attachmentKey(name));
    return record;
  }

  /** Whether a pod needs an address of its bridge. */
  hasGateway(gateway: Address): boolean {
    return [...this.values()].some(({ host }) => host.bridgeAddresses.some(({ address }) => address === gateway));
  }

  /**
   * Adds every attachment of this boot that has a record, so that those made while no daemon ran are known.
   *
   * @returns a message for each record that cannot be read
   * @throws DrawbridgeError ERR_STORE when a directory of records cannot be listed
   */
  load({ stateDirectory, bootId, files }: RecordPlace): readonly string[] {
    const problems: string[] = [];
    for (const network of recordedNetworks(stateDirectory, files).toSorted()) {
      const { records, unreadable } = listAttachments(stateDirectory, network, files);
      for (const record of records.filter((one) => one.bootId === bootId)) {
        this.add(record);
        this.#earlier.add(attachmentKey(record));
      }
      problems.push(
        ...unreadable.map(({ path, reason }) => `${path}: ${reason}; the pod is not known until it registers`),
      );
    }
    return problems;
  }
}

/** Returns the key of an attachment, which is unambiguous since none of the three parts may hold a slash. */
export function attachmentKey({ network, containerId, ifname }: AttachmentName): string {
  return `${network}/${containerId}/${ifname}`;
}

/** Whether a Pod is the one that was attached: its name may belong to another by now. Files give no uid. */
export function isPodOf({ pod }: Pick<AttachmentRecord, "pod">, { uid, staticUid }: Pod): boolean {
  return pod !== undefined && (pod.uid === "" || uid === "" || pod.uid === uid || pod.uid === staticUid);
}
