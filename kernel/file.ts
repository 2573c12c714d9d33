import { littleEndian } from "./byte_order.ts";
import { Errno } from "./syscall/errno.ts";
import { type FileCalls, type FileReadCalls, OpenFlag } from "./syscall/file_calls.ts";
import { check } from "./syscall/syscalls.ts";

const decoder = new TextDecoder();
const CHUNK = 16 * 1024;
/** Shared by all reads, because settings are read many times a second: one read ends before the next begins. */
const scratch = new Uint8Array(CHUNK);

const AT_FDCWD = -100;
const AT_EMPTY_PATH = 0x1000;
const AT_SYMLINK_NOFOLLOW = 0x100;
const STATX_TYPE = 0x1;
const STATX_MTIME = 0x40;
const STATX_INO = 0x100;
const STATX_BTIME = 0x800;
const STATX_SIZE = 256;
/** The buffer of {@link sightOf}, which retains nothing of it. */
const sightBuffer = new Uint8Array(STATX_SIZE);
const sightView = new DataView(sightBuffer.buffer);
const S_IFMT = 0o170000;
const S_IFDIR = 0o040000;
const S_IFREG = 0o100000;

/**
 * Reads a descriptor to its end.
 *
 * @param limit bytes; more are an error, so that no file can fill the memory
 * @throws SyscallError; EFBIG when there are more than `limit` bytes
 */
export function readAll(files: FileReadCalls, fd: number, limit: number, what: string): string {
  return decoder.decode(readToEnd(files, fd, limit, what));
}

/** Returns the bytes of a descriptor, valid until the next read. @throws as {@link readAll} */
function readToEnd(files: FileReadCalls, fd: number, limit: number, what: string): Uint8Array {
  let buffer = scratch.subarray(0, Math.min(CHUNK, limit + 1));
  let length = 0;
  for (;;) {
    if (length === buffer.length) {
      const grown = new Uint8Array(buffer.length * 2);
      grown.set(buffer);
      buffer = grown;
    }
    const count = files.read(fd, buffer.subarray(length));
    if (count === -Errno.EINTR) continue;
    if (check(count, `read ${what}`) === 0) return buffer.subarray(0, length);
    length += count;
    if (length > limit) check(-Errno.EFBIG, `read ${what}: more than ${limit} bytes`);
  }
}

/**
 * Writes all of the data, in parts where a pipe or a full disk takes only parts.
 *
 * @throws SyscallError
 */
export function writeAll(files: FileCalls, fd: number, data: Uint8Array, what: string): void {
  for (let sent = 0; sent < data.length;) {
    const count = files.write(fd, data.subarray(sent));
    if (count !== -Errno.EINTR) sent += check(count, `write ${what}`);
  }
}

/**
 * Returns the text of a file of at most `limit` bytes, or undefined when there is no such file. O_NONBLOCK keeps a
 * named pipe from blocking.
 *
 * @throws SyscallError
 */
export function readTextFile(files: FileReadCalls, path: string, limit: number): string | undefined {
  const fd = files.open(path, OpenFlag.RDONLY | OpenFlag.NONBLOCK | OpenFlag.CLOEXEC, 0);
  if (fd === -Errno.ENOENT) return undefined;
  check(fd, `open ${path}`);
  try {
    return decoder.decode(readToEnd(files, fd, limit, path));
  } finally {
    files.close(fd);
  }
}

/** Returns the id of this boot of the machine; empty where the kernel has none. @throws SyscallError */
export function readBootId(files: FileReadCalls): string {
  return (readTextFile(files, "/proc/sys/kernel/random/boot_id", 64) ?? "").trim();
}

/** The identity of an open file, valid while the file is open. */
export interface FileIdentity {
  readonly device: string;
  readonly inode: bigint;
}

/** Returns the identity of an open file. @throws SyscallError */
export function identityOf(files: FileReadCalls, fd: number, what: string): FileIdentity {
  const buffer = new Uint8Array(STATX_SIZE);
  check(files.statx(fd, "", AT_EMPTY_PATH, STATX_INO, buffer), `look at ${what}`);
  const view = new DataView(buffer.buffer);
  const device = `${view.getUint32(136, littleEndian)}:${view.getUint32(140, littleEndian)}`;
  return { device, inode: view.getBigUint64(32, littleEndian) };
}

/** Tells whether a path is a directory; false also when nothing is there. @throws SyscallError */
export function isDirectory(files: FileReadCalls, path: string): boolean {
  const buffer = new Uint8Array(STATX_SIZE);
  const result = files.statx(AT_FDCWD, path, 0, STATX_TYPE, buffer);
  if (result === -Errno.ENOENT || result === -Errno.ENOTDIR) return false;
  check(result, `look at ${path}`);
  return (new DataView(buffer.buffer).getUint16(28, littleEndian) & S_IFMT) === S_IFDIR;
}

/** Tells whether an open file is a regular one; false also when that cannot be determined. */
export function isRegularFile(files: FileReadCalls, fd: number): boolean {
  const buffer = new Uint8Array(STATX_SIZE);
  const result = files.statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, buffer);
  return result === 0 && (new DataView(buffer.buffer).getUint16(28, littleEndian) & S_IFMT) === S_IFREG;
}

/** Returns stx_mtime (struct statx) in seconds since 1970; undefined when the file is absent or not accessible. */
export function modificationTime(files: FileReadCalls, path: string): number | undefined {
  const buffer = new Uint8Array(STATX_SIZE);
  const result = files.statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_MTIME, buffer);
  return result === 0 ? Number(new DataView(buffer.buffer).getBigInt64(112, littleEndian)) : undefined;
}

/** The file that a path leads to, and its last change. */
export interface FileSight {
  /** The same as long as the file is the same: its inode number and birth time, as inode numbers are reused. */
  readonly identity: string;
  /** Nanoseconds since 1970. The kernel's clock for it ticks only every few milliseconds. */
  readonly changedAt: bigint;
}

/** Returns the file that a path leads to, from struct statx; undefined when it is absent or not accessible. */
export function sightOf(files: FileReadCalls, path: string): FileSight | undefined {
  const mask = STATX_INO | STATX_MTIME | STATX_BTIME;
  if (files.statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, mask, sightBuffer) !== 0) return undefined;
  const number = sightView.getBigUint64(32, littleEndian);
  return { identity: `${number} ${timeAt(80)}`, changedAt: timeAt(112) };
}

/** Returns a struct statx_timestamp in nanoseconds. */
function timeAt(offset: number): bigint {
  return (
    sightView.getBigInt64(offset, littleEndian) * 1_000_000_000n + BigInt(sightView.getUint32(offset + 8, littleEndian))
  );
}

/**
 * Returns the names in a directory without "." and "..", or undefined when there is no such directory.
 *
 * @throws SyscallError
 */
export function listDirectory(files: FileReadCalls, path: string): readonly string[] | undefined {
  const fd = files.open(path, OpenFlag.RDONLY | OpenFlag.DIRECTORY | OpenFlag.CLOEXEC, 0);
  if (fd === -Errno.ENOENT) return undefined;
  check(fd, `open ${path}`);
  const names: string[] = [];
  const buffer = new Uint8Array(CHUNK);
  try {
    for (;;) {
      const length = check(files.getdents64(fd, buffer), `list ${path}`);
      if (length === 0) return names;
      appendNames(names, buffer.subarray(0, length));
    }
  } finally {
    files.close(fd);
  }
}

/** Reads struct linux_dirent64 records: inode, offset, length of the record (u16 at 16), type, name with NUL. */
function appendNames(names: string[], records: Uint8Array): void {
  const view = new DataView(records.buffer, records.byteOffset, records.byteLength);
  for (let offset = 0; offset < records.length; offset += view.getUint16(offset + 16, littleEndian)) {
    const name = records.subarray(offset + 19, records.indexOf(0, offset + 19));
    const text = decoder.decode(name);
    if (text !== "." && text !== "..") names.push(text);
  }
}
