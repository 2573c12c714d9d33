import { DrawbridgeError } from "../kernel/error.ts";
import type { Address } from "../kernel/ip/address.ts";
import { formatAddress } from "../kernel/ip/address.ts";
import type { Cidr } from "../kernel/ip/cidr.ts";
import { formatCidr } from "../kernel/ip/cidr.ts";
import type { MacAddress } from "../kernel/ip/mac.ts";
import { decodeAttachment } from "./attachment_decoder.ts";
import { forgetEnded } from "./ended.ts";
import type { StoreFileSystem } from "./file_system.ts";
import type { Owner } from "./owner.ts";
import { expectNetworkName, expectOwner, isInterfaceName, isName } from "./owner.ts";

/** One published port: packets to `hostPort` of the node (of `hostIp`, where given) go to `containerPort`. */
export interface PortMapping {
  readonly hostPort: number;
  readonly containerPort: number;
  readonly protocol: "tcp" | "udp" | "sctp";
  readonly hostIp?: Address;
}

/** The bandwidth capability: rates in bits per second, bursts in bits; 0 means no limit. */
export interface Bandwidth {
  readonly ingressRate: number;
  readonly ingressBurst: number;
  readonly egressRate: number;
  readonly egressBurst: number;
}

/** What policyd has to know of a network's configuration to keep a pod's rules. */
export interface RecordedRules {
  /** Service addresses: a port of all the node's addresses is not one of these. */
  readonly serviceCidrs: readonly Cidr[];
  /** Where the pod keeps its own address under ipMasq. */
  readonly nonMasqueradeCidrs: readonly Cidr[];
}

/** The node's side of an attachment as its ADD has made it, beside its names and addresses: what the node has to keep. */
export interface RecordedHost {
  readonly bridgeMac: MacAddress;
  /** Bytes, of the bridge. */
  readonly mtu: number;
  /** Those by which the bridge's subnets lead to the pod. */
  readonly bridgeAddresses: readonly Cidr[];
  /** The pod's addresses that need a route of their own. */
  readonly routes: readonly Cidr[];
  readonly hairpin: boolean;
  /** Whether packets go around the bridge where they can. */
  readonly bypass: boolean;
  /** The pod has asked for its MAC address, so that it takes no place that another has. */
  readonly isMacRequested: boolean;
}

/** What is known of one attached pod interface: all that DEL, GC, CHECK, the audit and policyd need. */
export interface AttachmentRecord {
  readonly version: 1;
  /** `/proc/sys/kernel/random/boot_id` at the time of writing: a record of another boot describes nothing alive. */
  readonly bootId: string;
  readonly network: string;
  /** Where the addresses are reserved: DEL looks there even when the configuration has changed since. */
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
  /** What the pod sends leaves with the node's address. */
  readonly ipMasq?: boolean;
  /** What the pod sends with another MAC address is dropped. */
  readonly macspoofchk?: boolean;
  readonly bandwidth?: Bandwidth;
  /** Present where policyd keeps the pod's rules; the plugin then has none of it in tables of its own. */
  readonly policyd?: RecordedRules;
  /** Absent where an earlier release has made the attachment. */
  readonly host?: RecordedHost;
}

/** A file among the records that is none, and why. */
export interface UnreadableAttachment {
  readonly path: string;
  readonly reason: string;
}

/** A record with some hundred port mappings stays below; a larger file is not read. */
const MAX_RECORD_BYTES = 64 * 1024;

/**
 * Writes the record of an attachment, replacing an older one.
 *
 * The text goes to a name of its own first and is then renamed: whoever reads sees the old record or the new one
 * whole, also after SIGKILL. That name is fixed, so a killed call leaves at most one such file per attachment and the
 * next write or {@link removeAttachment} takes it away; CNI allows no two calls at once for one attachment. Should a
 * runtime break that, the worst is a torn record, which no reader trips over. Nothing is synced: the directory is on
 * a tmpfs, and its loss at a reboot is the point.
 *
 * @param runDirectory usually `/run/drawbridge`
 * @throws DrawbridgeError ERR_CONFIGURATION for unsafe names or a record too large, ERR_STORE
 */
export function writeAttachment(runDirectory: string, record: AttachmentRecord, files: StoreFileSystem): void {
  const { directory, path, scratch } = pathsOf(runDirectory, record.network, record);
  const text = JSON.stringify(attachmentToJson(record));
  const size = new TextEncoder().encode(text).length;
  if (size > MAX_RECORD_BYTES) {
    throw new DrawbridgeError(
      "ERR_CONFIGURATION",
      `attachment record of ${record.containerId}: ${size} bytes; expected at most ${MAX_RECORD_BYTES}: use fewer port mappings`,
    );
  }
  files.makeDirectory(directory, 0o700);
  try {
    if (!files.createFile(scratch, text)) {
      files.unlink(scratch);
      if (!files.createFile(scratch, text)) {
        throw new DrawbridgeError(
          "ERR_STORE",
          `cannot create ${scratch}: another call for this attachment is under way`,
        );
      }
    }
    files.rename(scratch, path);
  } catch (error) {
    try {
      files.unlink(scratch);
    } catch (second) {
      if (!(second instanceof DrawbridgeError)) throw second;
    }
    throw error;
  }
}

/**
 * Reads the record of an attachment; a missing, torn, foreign or unreadable one is undefined and never an error.
 *
 * @param onUnreadable told why, for the log, when there is a file but no record in it
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

/** The networks that have a directory of records. @throws DrawbridgeError ERR_STORE when they cannot be listed */
export function recordedNetworks(runDirectory: string, files: StoreFileSystem): readonly string[] {
  const directory = `${runDirectory}/attachments`;
  return files.readDirectory(directory).filter((name) => isName(name) && files.directoryExists(`${directory}/${name}`));
}

/** Whether any network has records, readable or not. @throws DrawbridgeError ERR_STORE when they cannot be listed */
export function hasRecords(runDirectory: string, files: StoreFileSystem): boolean {
  return recordedNetworks(runDirectory, files).some(
    (network) => files.readDirectory(`${runDirectory}/attachments/${network}`).length > 0,
  );
}

/**
 * The records that other networks have of an attachment, by the container and its interface; unreadable ones are left out.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION for unsafe names, ERR_STORE when the networks cannot be listed
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
 * Removes the record of an attachment, what a killed {@link writeAttachment} left of it, and the mark that it has ended.
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
 * The attachments of a network that have a record, by the names of the files: none is read.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION for an unsafe network name, ERR_STORE when the directory cannot be listed
 */
export function listAttachmentNames(runDirectory: string, network: string, files: StoreFileSystem): readonly Owner[] {
  return files.readDirectory(directoryOf(runDirectory, network)).flatMap((fileName): readonly Owner[] => {
    const [, containerId = "", ifname = ""] = /^([^:]+):([^:]+)\.json$/.exec(fileName) ?? [];
    return isName(containerId) && isInterfaceName(ifname) ? [{ containerId, ifname }] : [];
  });
}

/**
 * All records of a network, ordered by file name, with the files that hold none; for GC and audits.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION for an unsafe network name, ERR_STORE when the directory cannot be listed
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

/** A record as JSON has it, its addresses as texts; `attachmentFromJson` reads it. */
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
    ...(host === undefined
      ? {}
      : {
          host: {
            ...host,
            bridgeAddresses: host.bridgeAddresses.map(formatCidr),
            routes: host.routes.map(formatCidr),
          },
        }),
  };
}

/** At most 200 + 1 + 15 + 5 bytes, the scratch name one more: below the 255 a file name may have. */
function fileNameOf(owner: Owner): string {
  return `${owner.containerId}:${owner.ifname}.json`;
}

/** The paths of one attachment. Safe and unambiguous by the alphabets that {@link expectOwner} enforces. */
function pathsOf(runDirectory: string, network: string, owner: Owner) {
  expectOwner(owner);
  const directory = directoryOf(runDirectory, network);
  const fileName = fileNameOf(owner);
  return { directory, fileName, path: `${directory}/${fileName}`, scratch: `${directory}/.${fileName}` };
}

function directoryOf(runDirectory: string, network: string): string {
  expectNetworkName(network);
  return `${runDirectory}/attachments/${network}`;
}
