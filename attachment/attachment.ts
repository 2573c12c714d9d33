import type { Transport } from "../kernel/ip/protocol.ts";
import type { StoreFileSystem } from "../ipam/file_system.ts";
import { isInterfaceName, isName, type Owner } from "../ipam/owner.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import type { Address } from "../kernel/ip/address.ts";
import type { Cidr } from "../kernel/ip/cidr.ts";
import type { MacAddress } from "../kernel/ip/mac.ts";
import { decodeAttachment } from "./attachment_decoder.ts";
import { directoryOf, fileNameOf, MAX_RECORD_BYTES, pathsOf } from "./attachment_writer.ts";
import { forgetEnded } from "./ended.ts";

/** A published port: packets to `hostPort` of the node (of `hostIp`, if given) go to `containerPort`. */
export interface PortMapping {
  readonly hostPort: number;
  readonly containerPort: number;
  readonly protocol: Transport;
  readonly hostIp?: Address;
}

/** The bandwidth capability: rates in bits per second, bursts in bits; 0 means no limit. */
export interface Bandwidth {
  readonly ingressRate: number;
  readonly ingressBurst: number;
  readonly egressRate: number;
  readonly egressBurst: number;
}

/** The parts of a network's configuration that policyd needs for a pod's rules. */
export interface RecordedRules {
  /** Service addresses: a port of all the node's addresses does not include these. */
  readonly serviceCidrs: readonly Cidr[];
  /** Destinations to which the pod keeps its own address under ipMasq. */
  readonly nonMasqueradeCidrs: readonly Cidr[];
}

/** The node's side of an attachment as its ADD made it, beside names and addresses: the state the node must retain. */
export interface RecordedHost {
  readonly bridgeMac: MacAddress;
  /** The bridge's MTU in bytes. */
  readonly mtu: number;
  /** The bridge's addresses whose subnets lead to the pod. */
  readonly bridgeAddresses: readonly Cidr[];
  /** The pod's addresses that need a route of their own. */
  readonly routes: readonly Cidr[];
  readonly hairpin: boolean;
  /** Whether packets bypass the bridge where they can. */
  readonly bypass: boolean;
  /** The pod has requested its MAC address, so it does not replace an address that another pod has. */
  readonly isMacRequested: boolean;
}

/** The attachment record of one pod interface: everything that DEL, GC, CHECK, the audit and policyd need. */
export interface AttachmentRecord {
  readonly version: 1;
  /** `/proc/sys/kernel/random/boot_id` at the time of writing: nothing in a record of another boot still exists. */
  readonly bootId: string;
  readonly network: string;
  /** The directory with the reservations: DEL uses it even if the configuration has changed since. */
  readonly dataDir: string;
  readonly bridge: string;
  readonly containerId: string;
  readonly ifname: string;
  /** The pod's network namespace; `inode` as decimal text, since it may exceed 2^53. */
  readonly netns: { readonly path: string; readonly inode: string };
  readonly pod?: { readonly namespace: string; readonly name: string; readonly uid: string };
  /** The pod's addresses as they are set on its interface. */
  readonly addresses: readonly Cidr[];
  readonly mac: MacAddress;
  readonly hostInterface: string;
  readonly hostMac: MacAddress;
  readonly portMappings: readonly PortMapping[];
  /** Packets of the pod leave with the node's address. */
  readonly ipMasq?: boolean;
  /** Packets of the pod with another MAC address are dropped. */
  readonly macspoofchk?: boolean;
  readonly bandwidth?: Bandwidth;
  /** Present if policyd maintains the pod's rules; the plugin then has none in tables of its own. */
  readonly policyd?: RecordedRules;
  readonly host: RecordedHost;
}

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
