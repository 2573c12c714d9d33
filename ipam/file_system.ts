import { DrawbridgeError } from "../kernel/error.ts";
import { isDirectory, listDirectory, writeAll } from "../kernel/file.ts";
import { Errno, errnoName, errnoText } from "../kernel/syscall/errno.ts";
import { type FileCalls, OpenFlag } from "../kernel/syscall/file_calls.ts";
import { SyscallError } from "../kernel/syscall/syscalls.ts";

/** The result of reading a small file: its text, no such name, or anything other than a small regular file. */
export type SmallFile =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "missing" }
  | { readonly kind: "foreign" };

/**
 * The file system calls that the address store and the attachment records use.
 *
 * Results that callers decide on are return values. Everything else (ENOSPC, EROFS, EIO, EACCES, ...) is thrown as
 * DrawbridgeError ERR_STORE naming the path and the errno.
 */
export interface StoreFileSystem {
  directoryExists(path: string): boolean;
  /** Creates the directory with all its parents; an existing one is fine. */
  makeDirectory(path: string, mode: number): void;
  /** Creates a file of mode 0600 with this content. False when the name is taken (O_EXCL). */
  createFile(path: string, content: string): boolean;
  /** Gives a file a second name. False when that name is taken: link(2) never replaces. */
  link(existing: string, name: string): boolean;
  /** Renames a file and atomically replaces one with the new name. */
  rename(from: string, to: string): void;
  /** Removes a name. False when there was none. */
  unlink(path: string): boolean;
  /** The names in a directory; none when it is missing. */
  readDirectory(path: string): readonly string[];
  /** Reads a regular file of at most `limit` bytes; never follows a symbolic link, never blocks on a pipe. */
  readSmallFile(path: string, limit: number): SmallFile;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The errors of opening or reading anything other than a regular file: a link, a socket, a directory. */
const foreign: ReadonlySet<number> = new Set([Errno.ELOOP, Errno.ENXIO, Errno.EISDIR, Errno.EAGAIN]);

/** The errors of a missing file, also where a file has the name of its directory. */
const missing: ReadonlySet<number> = new Set([Errno.ENOENT, Errno.ENOTDIR]);

/** {@link StoreFileSystem} over the kernel's own calls. */
export function systemFileSystem(files: FileCalls): StoreFileSystem {
  const makeDirectory = (path: string, mode: number): void => {
    // It is checked first, since it nearly always exists and mkdir would lock its parent to find out.
    if (isDirectory(files, path)) return;
    const result = files.mkdir(path, mode);
    if (result === 0 || (result === -Errno.EEXIST && isDirectory(files, path))) return;
    const parent = path.slice(0, path.lastIndexOf("/"));
    if (result !== -Errno.ENOENT || parent === "") throw storeError("create directory", path, -result);
    makeDirectory(parent, mode);
    const second = files.mkdir(path, mode);
    if (second !== 0 && second !== -Errno.EEXIST) throw storeError("create directory", path, -second);
  };
  const readSmall = (fd: number, path: string, limit: number): SmallFile => {
    // One byte more than allowed reveals a file that is too long; a regular file returns all its data in one read.
    const buffer = new Uint8Array(limit + 1);
    const length = files.read(fd, buffer);
    if (foreign.has(-length)) return { kind: "foreign" };
    if (length < 0) throw storeError("read", path, -length);
    return length > limit ? { kind: "foreign" } : { kind: "text", text: decoder.decode(buffer.subarray(0, length)) };
  };
  return Object.freeze({
    directoryExists: (path: string) => asStoreError("look at", path, () => isDirectory(files, path)),

    makeDirectory,

    createFile(path: string, content: string): boolean {
      const fd = files.open(path, OpenFlag.WRONLY | OpenFlag.CREAT | OpenFlag.EXCL | OpenFlag.CLOEXEC, 0o600);
      if (fd === -Errno.EEXIST) return false;
      if (fd < 0) throw storeError("create", path, -fd);
      try {
        asStoreError("write", path, () => {
          writeAll(files, fd, encoder.encode(content), path);
        });
      } finally {
        files.close(fd);
      }
      return true;
    },

    link(existing: string, name: string): boolean {
      const result = files.link(existing, name);
      if (result < 0 && result !== -Errno.EEXIST) throw storeError("create", name, -result);
      return result === 0;
    },

    rename(from: string, to: string): void {
      const result = files.rename(from, to);
      if (result < 0) throw storeError("replace", to, -result);
    },

    unlink(path: string): boolean {
      const result = files.unlink(path);
      if (result < 0 && !missing.has(-result)) throw storeError("remove", path, -result);
      return result === 0;
    },

    readDirectory: (path: string) => asStoreError("list", path, () => listDirectory(files, path) ?? []),

    readSmallFile(path: string, limit: number): SmallFile {
      const flags = OpenFlag.RDONLY | OpenFlag.NOFOLLOW | OpenFlag.NONBLOCK | OpenFlag.CLOEXEC;
      const fd = files.open(path, flags, 0);
      if (missing.has(-fd)) return { kind: "missing" };
      if (foreign.has(-fd)) return { kind: "foreign" };
      if (fd < 0) throw storeError("read", path, -fd);
      try {
        return readSmall(fd, path, limit);
      } finally {
        files.close(fd);
      }
    },
  });
}

/** The calls by which {@link replaceFile} works. */
export type ReplacingCall = "makeDirectory" | "createFile" | "rename" | "unlink";

/**
 * Writes a file, replacing an older one. The text is written under the scratch name and then renamed: readers see either
 * the old or the new file as a whole, even after SIGKILL. That name is fixed, so a killed process leaves at most one such
 * file, which the next write replaces. Nothing is synced.
 *
 * @param scratch by default the name after a dot
 * @throws DrawbridgeError ERR_STORE
 */
export function replaceFile(
  files: Pick<StoreFileSystem, ReplacingCall>,
  directory: string,
  name: string,
  text: string,
  scratch = `${directory}/.${name}`,
): void {
  files.makeDirectory(directory, 0o700);
  try {
    if (!files.createFile(scratch, text)) {
      files.unlink(scratch);
      if (!files.createFile(scratch, text)) {
        throw new DrawbridgeError("ERR_STORE", `cannot create ${scratch}: another process has made it; try again`);
      }
    }
    files.rename(scratch, `${directory}/${name}`);
  } catch (error) {
    try {
      files.unlink(scratch);
    } catch (second) {
      expectStoreError(second);
    }
    throw error;
  }
}

/** Returns a file system failure; anything else is a bug of ours and is thrown. */
export function expectStoreError(error: unknown): DrawbridgeError {
  if (error instanceof DrawbridgeError) return error;
  throw error;
}

/** Returns the error of a failed file operation: `cannot write <path>: no space left on device (ENOSPC)`. */
export function storeError(action: string, path: string, errno: number): DrawbridgeError {
  const cause = new SyscallError(action, errno);
  return new DrawbridgeError("ERR_STORE", `cannot ${action} ${path}: ${errnoText(errno)} (${errnoName(errno)})`, {
    cause,
  });
}

function asStoreError<T>(action: string, path: string, call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw error instanceof SyscallError ? storeError(action, path, error.errno) : error;
  }
}
