import { replaceFile, type StoreFileSystem } from "../ipam/file_system.ts";
import { expectNetworkName, expectOwner, type Owner } from "../ipam/owner.ts";
import { attempt, DrawbridgeError } from "../kernel/error.ts";
import { formatAddress } from "../kernel/ip/address.ts";
import { formatCidr } from "../kernel/ip/cidr.ts";
import type { AttachmentRecord } from "./attachment.ts";
import { forgetEnded } from "./ended.ts";

/** The most networks that one list of a record may have: each is an element of a set, for each port or address. */
export const MOST_NETWORKS = 256;

/** The largest record; one with some hundred port mappings is smaller. A larger file is not read. */
export const MAX_RECORD_BYTES = 64 * 1024;

/**
 * Writes the record of an attachment, replacing an older one.
 *
 * A killed call leaves at most one file for each attachment, which the next write or {@link removeAttachment} deletes.
 * CNI allows no two concurrent calls for one attachment; if a runtime breaks that, the worst result is a torn record,
 * which readers tolerate. The directory is on a tmpfs, and is meant to be lost at a reboot.
 *
 * @param runDirectory usually `/run/drawbridge`
 * @throws DrawbridgeError ERR_CONFIGURATION for unsafe names or a record too large, ERR_STORE
 */
export function writeAttachment(runDirectory: string, record: AttachmentRecord, files: StoreFileSystem): void {
  const { directory, fileName } = pathsOf(runDirectory, record.network, record);
  const text = JSON.stringify(attachmentToJson(record));
  const size = new TextEncoder().encode(text).length;
  if (size > MAX_RECORD_BYTES) {
    throw new DrawbridgeError(
      "ERR_CONFIGURATION",
      `attachment record of ${record.containerId}: ${size} bytes; expected at most ${MAX_RECORD_BYTES}: use fewer port mappings`,
    );
  }
  replaceFile(files, directory, fileName, text);
}

/**
 * Removes the record of an attachment, the remains of a killed {@link writeAttachment}, and the mark that it has ended.
 *
 * @returns whether there was a record
 * @throws DrawbridgeError ERR_CONFIGURATION for unsafe names, ERR_STORE
 */
export function removeAttachment(runDirectory: string, network: string, owner: Owner, files: StoreFileSystem): boolean {
  const { path, scratch } = pathsOf(runDirectory, network, owner);
  files.unlink(scratch);
  const wasThere = files.unlink(path);
  forgetEnded(runDirectory, network, owner, files);
  return wasThere;
}

/**
 * Tells whether an attachment may have a record: whether there is a file, whatever is in it.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION for unsafe names only
 */
export function mayBeRecorded(runDirectory: string, network: string, owner: Owner, files: StoreFileSystem): boolean {
  const { path } = pathsOf(runDirectory, network, owner);
  return attempt(
    () => files.readSmallFile(path, MAX_RECORD_BYTES).kind !== "missing",
    () => true,
  );
}

/** Returns a record for JSON, with its addresses as text; `attachmentFromJson` reads it. */
export function attachmentToJson(record: AttachmentRecord): object {
  const { policyd, host } = record;
  return {
    ...record,
    addresses: record.addresses.map(formatCidr),
    portMappings: record.portMappings.map((mapping) => ({
      ...mapping,
      hostIp: mapping.hostIp === undefined ? undefined : formatAddress(mapping.hostIp),
    })),
    ...(policyd === undefined
      ? {}
      : {
          policyd: {
            serviceCidrs: policyd.serviceCidrs.map(formatCidr),
            nonMasqueradeCidrs: policyd.nonMasqueradeCidrs.map(formatCidr),
          },
        }),
    host: { ...host, bridgeAddresses: host.bridgeAddresses.map(formatCidr), routes: host.routes.map(formatCidr) },
  };
}

/** Returns at most 200 + 1 + 15 + 5 bytes; the scratch name has one more, and a file name may have 255. */
export function fileNameOf(owner: Owner): string {
  return `${owner.containerId}:${owner.ifname}.json`;
}

/** The paths of an attachment's record; `scratch` is the name under which it is written. */
interface RecordPaths {
  readonly directory: string;
  readonly fileName: string;
  readonly path: string;
  readonly scratch: string;
}

/** Returns the paths of an attachment. The alphabets that {@link expectOwner} enforces make them unambiguous. */
export function pathsOf(runDirectory: string, network: string, owner: Owner): RecordPaths {
  expectOwner(owner);
  const directory = directoryOf(runDirectory, network);
  const fileName = fileNameOf(owner);
  return { directory, fileName, path: `${directory}/${fileName}`, scratch: `${directory}/.${fileName}` };
}

/** Returns the directory of a network's records. @throws DrawbridgeError ERR_CONFIGURATION for an unsafe name */
export function directoryOf(runDirectory: string, network: string): string {
  expectNetworkName(network);
  return `${runDirectory}/attachments/${network}`;
}
