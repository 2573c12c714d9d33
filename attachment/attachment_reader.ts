import type { StoreFileSystem } from "../ipam/file_system.ts";
import { isInterfaceName, isName, type Owner } from "../ipam/owner.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import type { AttachmentRecord } from "./attachment.ts";
import { decodeAttachment } from "./attachment_decoder.ts";
import { directoryOf, fileNameOf, MAX_RECORD_BYTES, pathsOf } from "./attachment_writer.ts";

/** A file among the records that does not contain one, and why. */
export interface UnreadableAttachment {
  readonly path: string;
  readonly reason: string;
}

/**
 * Reads the record of an attachment; returns undefined for a missing, torn, foreign or unreadable one, which is never
 * an error.
 *
 * @param onUnreadable gets the reason, for the log, if there is a file without a record in it
 * @throws DrawbridgeError ERR_CONFIGURATION for unsafe names only
 */
export function readAttachment(
  runDirectory: string,
  network: string,
  owner: Owner,
  files: StoreFileSystem,
  onUnreadable: (unreadable: UnreadableAttachment) => void = () => {},
): AttachmentRecord | undefined {
  const { path, fileName } = pathsOf(runDirectory, network, owner);
  const reading = readRecord(path, network, fileName, files);
  if (reading.kind === "unreadable") onUnreadable({ path, reason: reading.reason });
  return reading.kind === "record" ? reading.record : undefined;
}

/** Returns the networks that have a directory of records. @throws DrawbridgeError ERR_STORE if they cannot be listed */
export function recordedNetworks(runDirectory: string, files: StoreFileSystem): readonly string[] {
  const directory = `${runDirectory}/attachments`;
  return files.readDirectory(directory).filter((name) => isName(name) && files.directoryExists(`${directory}/${name}`));
}

/** Returns whether any network has records, readable or not. @throws DrawbridgeError ERR_STORE if listing fails */
export function hasRecords(runDirectory: string, files: StoreFileSystem): boolean {
  return recordedNetworks(runDirectory, files).some(
    (network) => files.readDirectory(`${runDirectory}/attachments/${network}`).length > 0,
  );
}

/**
 * Returns the records that other networks have of an attachment, by the container and its interface; without unreadable
 * ones.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION for unsafe names, ERR_STORE if the networks cannot be listed
 */
export function recordsOfOtherNetworks(
  runDirectory: string,
  network: string,
  owner: Owner,
  files: StoreFileSystem,
): readonly AttachmentRecord[] {
  return recordedNetworks(runDirectory, files)
    .filter((name) => name !== network)
    .map((other) => readAttachment(runDirectory, other, owner, files))
    .filter((record) => record !== undefined);
}

/**
 * Returns the attachments of a network that have a record, by the names of the files, without reading them.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION for an unsafe network name, ERR_STORE if the directory cannot be listed
 */
export function listAttachmentNames(runDirectory: string, network: string, files: StoreFileSystem): readonly Owner[] {
  return files.readDirectory(directoryOf(runDirectory, network)).flatMap((fileName): readonly Owner[] => {
    const [, containerId = "", ifname = ""] = /^([^:]+):([^:]+)\.json$/.exec(fileName) ?? [];
    return isName(containerId) && isInterfaceName(ifname) ? [{ containerId, ifname }] : [];
  });
}

/**
 * Returns all records of a network, ordered by file name, and the files without a valid one; for GC and audits.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION for an unsafe network name, ERR_STORE if the directory cannot be listed
 */
export function listAttachments(
  runDirectory: string,
  network: string,
  files: StoreFileSystem,
): { readonly records: readonly AttachmentRecord[]; readonly unreadable: readonly UnreadableAttachment[] } {
  const directory = directoryOf(runDirectory, network);
  const records: AttachmentRecord[] = [];
  const unreadable: UnreadableAttachment[] = [];
  for (const fileName of [...files.readDirectory(directory)].sort()) {
    // A leading dot marks an unfinished write; no container id begins with one.
    if (fileName.startsWith(".")) continue;
    const path = `${directory}/${fileName}`;
    const reading = readRecord(path, network, fileName, files);
    if (reading.kind === "record") records.push(reading.record);
    else if (reading.kind === "unreadable") unreadable.push({ path, reason: reading.reason });
  }
  return { records, unreadable };
}

type Reading =
  | { readonly kind: "record"; readonly record: AttachmentRecord }
  | { readonly kind: "missing" }
  | { readonly kind: "unreadable"; readonly reason: string };

function readRecord(path: string, network: string, fileName: string, files: StoreFileSystem): Reading {
  try {
    const file = files.readSmallFile(path, MAX_RECORD_BYTES);
    if (file.kind === "missing") return file;
    if (file.kind === "foreign") {
      return { kind: "unreadable", reason: `not a regular file of at most ${MAX_RECORD_BYTES} bytes` };
    }
    const record = decodeAttachment(file.text);
    if (record.network !== network || fileNameOf(record) !== fileName) {
      return { kind: "unreadable", reason: "describes another attachment than its name says" };
    }
    return { kind: "record", record };
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    return { kind: "unreadable", reason: error.message };
  }
}
