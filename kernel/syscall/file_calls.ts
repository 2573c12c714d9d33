/**
 * The file system calls of the plugin and the daemon. As in syscalls.ts, a negative result is minus the errno.
 *
 * `node:fs` offers all of them, but loading it takes 1.6 ms of every ADD (docs/performance.md).
 */
export interface FileReadCalls {
  open(path: string, flags: number, mode: number): number;
  read(fd: number, buffer: Uint8Array): number;
  /** pread(2): reads at an offset and leaves the place of the next `read` as it is. */
  pread(fd: number, buffer: Uint8Array, offset: number): number;
  close(fd: number): number;
  /** Fills `buffer` with struct linux_dirent64 records; 0 at the end of the directory. */
  getdents64(fd: number, buffer: Uint8Array): number;
  /** Fills `buffer` (256 bytes) with a struct statx, whose layout is the same on every architecture. */
  statx(directoryFd: number, path: string, flags: number, mask: number, buffer: Uint8Array): number;
}

/** The calls that change the file system. Only the store, the records and sysctl receive them, never a verb. */
export interface FileCalls extends FileReadCalls {
  write(fd: number, data: Uint8Array): number;
  link(existing: string, name: string): number;
  rename(from: string, to: string): number;
  unlink(path: string): number;
  mkdir(path: string, mode: number): number;
}

const isArm = process.arch === "arm64";

/** Flags of open(2): asm-generic/fcntl.h, and arch/arm64/include/uapi/asm/fcntl.h where that differs. */
export const OpenFlag = {
  RDONLY: 0,
  WRONLY: 1,
  RDWR: 2,
  CREAT: 0o100,
  EXCL: 0o200,
  NONBLOCK: 0o4000,
  DIRECTORY: isArm ? 0o40000 : 0o200000,
  NOFOLLOW: isArm ? 0o100000 : 0o400000,
  CLOEXEC: 0o2000000,
} as const;

const encoder = new TextEncoder();

/**
 * Returns a path as C reads it.
 *
 * @throws RangeError for a path with a NUL, which C would truncate; the input checks refuse such texts before
 */
export function pathBytes(path: string): Uint8Array {
  if (path.includes("\0")) throw new RangeError(`path ${JSON.stringify(path)} contains a NUL byte`);
  return encoder.encode(`${path}\0`);
}
