import { DrawbridgeError } from "../kernel/error.ts";
import type { AttachmentRecord } from "./attachment.ts";
import type { StoreFileSystem } from "../ipam/file_system.ts";
import { expectNetworkName, expectOwner, isInterfaceName, isName, type Owner } from "../ipam/owner.ts";

/** Seconds after which the remains of a sandbox that ended without DEL are removed; until then DEL may still come. */
export const ENDED_SECONDS = 900;

/** An attachment whose sandbox has ended without DEL, and when this was noticed, in seconds since the boot. */
export interface EndedMark extends Owner {
  readonly since: number;
}

/** Larger than any mark. */
const MAX_MARK_BYTES = 256;

/** The time of a mark: the boot, and seconds since it (uptime of cni/status/failure_record.ts). */
export interface Moment {
  readonly bootId: string;
  readonly seconds: number;
}

/**
 * Marks an attachment whose sandbox has ended without DEL. An existing mark stays as it is, since it records the time.
 *
 * Marks are beside the records: both the daemon and the plugin notice that a sandbox has ended, only the plugin can
 * release addresses, and neither runs all the time. DEL removes the mark with the record.
 *
 * @returns the time of the mark
 * @throws DrawbridgeError ERR_CONFIGURATION for unsafe names, ERR_STORE
 */
export function markEnded(
  runDirectory: string,
  network: string,
  owner: Owner,
  { bootId, seconds }: Moment,
  files: StoreFileSystem,
): number {
  const { directory, path } = markPath(runDirectory, network, owner);
  const earlier = readMark(path, bootId, files);
  if (earlier !== undefined) return earlier;
  files.makeDirectory(directory, 0o700);
  // A mark of another boot or one torn by a kill is not valid.
  files.unlink(path);
  files.createFile(path, JSON.stringify({ bootId, since: seconds }));
  return seconds;
}

/** Returns the time of an attachment's mark; undefined without one of this boot. */
export function endedSince(
  runDirectory: string,
  { network, containerId, ifname, bootId }: Pick<AttachmentRecord, "network" | "containerId" | "ifname" | "bootId">,
  files: StoreFileSystem,
): number | undefined {
  return readMark(markPath(runDirectory, network, { containerId, ifname }).path, bootId, files);
}

/** Removes an attachment's mark, if any. @throws DrawbridgeError ERR_CONFIGURATION for unsafe names, ERR_STORE */
export function forgetEnded(runDirectory: string, network: string, owner: Owner, files: StoreFileSystem): void {
  files.unlink(markPath(runDirectory, network, owner).path);
}

/**
 * Returns the marked attachments of a network, except for marks of another boot and torn ones; a single system call if
 * there are none.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION for an unsafe network name, ERR_STORE if they cannot be listed
 */
export function endedAttachments(
  runDirectory: string,
  network: string,
  bootId: string,
  files: StoreFileSystem,
): readonly EndedMark[] {
  const directory = directoryOf(runDirectory, network);
  return files.readDirectory(directory).flatMap((name): readonly EndedMark[] => {
    const [containerId = "", ifname = ""] = name.split(":");
    if (!isName(containerId) || !isInterfaceName(ifname)) return [];
    const since = readMark(`${directory}/${name}`, bootId, files);
    return since === undefined ? [] : [{ containerId, ifname, since }];
  });
}

function readMark(path: string, thisBoot: string, files: StoreFileSystem): number | undefined {
  try {
    const file = files.readSmallFile(path, MAX_MARK_BYTES);
    if (file.kind !== "text") return undefined;
    const mark: unknown = JSON.parse(file.text);
    if (typeof mark !== "object" || mark === null || !("bootId" in mark) || !("since" in mark)) return undefined;
    const { bootId, since } = mark;
    return bootId === thisBoot && typeof since === "number" && Number.isFinite(since) ? since : undefined;
  } catch (error) {
    if (error instanceof DrawbridgeError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function markPath(
  runDirectory: string,
  network: string,
  owner: Owner,
): { readonly directory: string; readonly path: string } {
  expectOwner(owner);
  const directory = directoryOf(runDirectory, network);
  return { directory, path: `${directory}/${owner.containerId}:${owner.ifname}` };
}

function directoryOf(runDirectory: string, network: string): string {
  expectNetworkName(network);
  return `${runDirectory}/ended/${network}`;
}
