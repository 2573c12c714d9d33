import { type FileHandle, link, lstat, mkdir, open, readdir, readFile, rename, stat, unlink } from "node:fs/promises";
import { type BigIntStats, constants, linkSync, lstatSync, renameSync, statSync, unlinkSync, watch } from "node:fs";
import path from "node:path";
import process from "node:process";
import { DrawbridgeError } from "../../kernel/error.ts";

/** The file that a name in a directory leads to. */
export interface FileLook {
  readonly isFile: boolean;
  /** Whether the name itself is a directory, not a link to one. */
  readonly isDirectory: boolean;
  /** Whether the name is a symbolic link. The other fields describe its target, or the link if that is missing. */
  readonly isLink: boolean;
  /** Permission bits. */
  readonly mode: number;
  readonly size: number;
  /** Equal for all names of one file. */
  readonly identity: string;
  /** Changes whenever the content changes. */
  readonly signature: string;
}

/** The result of reading a small file without following a link or waiting for a pipe. */
export type SmallFile =
  | { readonly kind: "missing" }
  | {
      readonly kind: "file";
      readonly data: Uint8Array;
      /** Permission bits, owner and group. */
      readonly mode: number;
      readonly user: number;
      readonly group: number;
      /** As {@link FileLook.signature}. */
      readonly signature: string;
    }
  /** The name exists, but nothing was read. */
  | { readonly kind: "refused"; readonly reason: string; readonly signature: string };

/**
 * The directories of the node into which the daemon puts its plugin. All calls throw DrawbridgeError ERR_STORE with the
 * path and the reason. Each call is one step, after which the process may end.
 */
export interface HostFiles {
  /** Creates the directory with its parents; an existing one is fine. */
  makeDirectory(directory: string): Promise<void>;
  /** Returns the names in it; none when it is missing. */
  list(directory: string): Promise<readonly string[]>;
  /** Returns undefined for a free name. A dangling link, such as one out of the container, is a link and not a file. */
  look(name: string): Promise<FileLook | undefined>;
  /** Reads a regular file of at most `limit` bytes. Anything else under the name is refused. */
  readSmall(name: string, limit: number): Promise<SmallFile>;
  /** Reads a file of the plugin's size. */
  read(name: string): Promise<Uint8Array>;
  /**
   * Writes a new file, with permissions independent of the process's umask, and syncs it. Until it is complete only root
   * can read it. It fails where the name is taken.
   */
  writeNew(name: string, data: Uint8Array, mode: number): Promise<void>;
  /** Gives a file a second name, which must be free. */
  link(existing: string, name: string): Promise<void>;
  /** Renames, replacing what has the new name in one step. */
  rename(from: string, to: string): Promise<void>;
  /**
   * Renames if the new name still has that signature, or is still free where that is undefined. Between the comparison
   * and the rename other programs of this machine have only some microseconds, and no time at all where the name is
   * free.
   *
   * @returns false when it has changed; the file then keeps its old name
   */
  replaceUnchanged(from: string, to: string, signature: string | undefined): Promise<boolean>;
  /** Removes a name; a missing one is fine. */
  remove(name: string): Promise<void>;
  /** Resolves when the directory's names are on disk. */
  syncDirectory(directory: string): Promise<void>;
  /**
   * Calls `onChange` when something in the directory has changed, until `close`. Changes can be missed.
   *
   * @param onEnd called when the directory can no longer be watched
   */
  watch(directory: string, onChange: () => void, onEnd: () => void): { close(): void };
}

/** {@link HostFiles} of this machine. */
export const hostFiles: HostFiles = Object.freeze({
  makeDirectory: async (directory: string) => {
    await tried("create directory", directory, () => mkdir(directory, { recursive: true, mode: 0o755 }));
  },
  list: async (directory: string) => (await unlessMissing("list", directory, () => readdir(directory))) ?? [],
  look: async (name: string) => {
    const own = await unlessMissing("look at", name, () => lstat(name, { bigint: true }));
    if (own === undefined) return undefined;
    const stats = (await unlessMissing("look at", name, () => stat(name, { bigint: true }))) ?? own;
    const { dev, ino, size, mode } = stats;
    return {
      isFile: stats.isFile(),
      isDirectory: own.isDirectory(),
      isLink: own.isSymbolicLink(),
      mode: Number(mode) & 0o7777,
      size: Number(size),
      identity: `${dev}:${ino}`,
      signature: signatureOf(stats),
    };
  },
  readSmall,
  read: (name: string) => tried("read", name, () => readFile(name)),
  writeNew: async (name: string, data: Uint8Array, mode: number) => {
    const handle = await tried("create", name, () => open(name, "wx", 0o600));
    try {
      await tried("write", name, () => handle.writeFile(data));
      await tried("change", name, () => handle.chmod(mode));
      await tried("sync", name, () => handle.sync());
    } finally {
      await tried("close", name, () => handle.close());
    }
  },
  link: (existing: string, name: string) => tried("create", name, () => link(existing, name)),
  rename: (from: string, to: string) => tried("replace", to, () => rename(from, to)),
  replaceUnchanged: (from: string, to: string, signature: string | undefined) =>
    tried("replace", to, async () => (signature === undefined ? placed(from, to) : replaced(from, to, signature))),
  remove: async (name: string) => {
    await unlessMissing("remove", name, () => unlink(name));
  },
  syncDirectory: (directory: string) =>
    tried("sync", directory, async () => {
      const handle = await open(directory, "r");
      try {
        await handle.sync();
      } finally {
        await handle.close();
      }
    }),
  watch: (directory: string, onChange: () => void, onEnd: () => void) => {
    try {
      // An event with the directory's own name means that the directory itself has gone.
      const watcher = watch(directory, { persistent: false }, (_, name) => {
        onChange();
        if (name === path.basename(directory)) onEnd();
      });
      watcher.on("error", onEnd);
      return watcher;
    } catch (error) {
      throw asStoreError("follow", directory, error);
    }
  },
});

function signatureOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(":");
}

async function readSmall(name: string, limit: number): Promise<SmallFile> {
  const found = await unlessMissing("look at", name, () => lstat(name, { bigint: true }));
  if (found === undefined) return { kind: "missing" };
  const refused = (reason: string): SmallFile => ({ kind: "refused", reason, signature: signatureOf(found) });
  if (found.isSymbolicLink()) return refused("it is a symbolic link");
  if (!found.isFile()) return refused("it is not a regular file");
  if (found.size > limit) return refused(`it has more than ${limit} bytes`);
  // Another program may put a link or a pipe there in the meantime.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await unlessMissing("read", name, () => openUnlessOfAnother(name, flags, found));
  if (handle === undefined) return { kind: "missing" };
  if (handle === "of another user") return refused(`it belongs to user ${found.uid}, and policyd may not read it`);
  try {
    const stats = await tried("look at", name, () => handle.stat({ bigint: true }));
    if (!stats.isFile()) return refused("it is not a regular file");
    // One extra byte shows that the file is larger, or has grown since.
    const buffer = new Uint8Array(limit + 1);
    let length = 0;
    for (let count = -1; count !== 0 && length <= limit; length += count) {
      const offset = length;
      count = (await tried("read", name, () => handle.read(buffer, offset, buffer.length - offset, null))).bytesRead;
    }
    if (length > limit) return refused(`it has more than ${limit} bytes`);
    const { mode, uid, gid } = stats;
    return {
      kind: "file",
      data: buffer.subarray(0, length),
      mode: Number(mode) & 0o7777,
      user: Number(uid),
      group: Number(gid),
      signature: signatureOf(stats),
    };
  } finally {
    await handle.close();
  }
}

/**
 * Opens a file, unless it belongs to another user who lets nobody else read it. Such a file is refused even where the
 * daemon's container runs as user 0, since it lacks CAP_DAC_OVERRIDE.
 */
async function openUnlessOfAnother(
  name: string,
  flags: number,
  { uid }: BigIntStats,
): Promise<FileHandle | "of another user"> {
  try {
    return await open(name, flags);
  } catch (error) {
    if (hasCode(error, "EACCES") && Number(uid) !== process.geteuid?.()) return "of another user";
    throw error;
  }
}

/** Moves a file to a name that must be free; without hard links, by a rename. @returns whether it did */
function placed(from: string, to: string): boolean {
  try {
    linkSync(from, to);
  } catch (error) {
    if (hasCode(error, "EEXIST")) return false;
    renameSync(from, to);
    return true;
  }
  unlinkSync(from);
  return true;
}

/** Runs in one turn of the event loop, so that no other work of ours comes in between. */
function replaced(from: string, to: string, signature: string): boolean {
  const found = lstatSync(to, { bigint: true, throwIfNoEntry: false });
  if (found === undefined || signatureOf(found) !== signature) return false;
  renameSync(from, to);
  return true;
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

async function unlessMissing<T>(action: string, name: string, call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call();
  } catch (error) {
    if (hasCode(error, "ENOENT") || hasCode(error, "ENOTDIR")) return undefined;
    throw asStoreError(action, name, error);
  }
}

async function tried<T>(action: string, name: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw asStoreError(action, name, error);
  }
}

function asStoreError(action: string, name: string, error: unknown): unknown {
  if (!(error instanceof Error && "code" in error) || error instanceof DrawbridgeError) return error;
  const reason = error.message.replace(/, [a-z]+( '.*)?$/s, "");
  const way = hasCode(error, "EACCES") ? wayIntoDirectory(path.dirname(name)) : "";
  return new DrawbridgeError("ERR_STORE", `cannot ${action} ${name}: ${reason}${way}`, { cause: error });
}

/** Returns the way out where a directory belongs to another user: root needs CAP_DAC_OVERRIDE to write there. */
function wayIntoDirectory(directory: string): string {
  try {
    const { uid } = statSync(directory);
    return uid === process.geteuid?.() ? "" : `; ${directory} belongs to user ${uid}: chown root ${directory}`;
  } catch {
    return "";
  }
}
