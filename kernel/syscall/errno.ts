/**
 * The errnos that we branch on, or with which netlink and the file system commonly answer.
 *
 * The numbers are those of asm-generic/errno.h, shared by x64, arm64, riscv and s390x.
 */
export const Errno = {
  EPERM: 1,
  ENOENT: 2,
  ESRCH: 3,
  EINTR: 4,
  EIO: 5,
  ENXIO: 6,
  EBADF: 9,
  EAGAIN: 11,
  ENOMEM: 12,
  EACCES: 13,
  EFAULT: 14,
  EBUSY: 16,
  EEXIST: 17,
  EXDEV: 18,
  ENODEV: 19,
  ENOTDIR: 20,
  EISDIR: 21,
  EINVAL: 22,
  ENFILE: 23,
  EMFILE: 24,
  EFBIG: 27,
  ENOSPC: 28,
  EROFS: 30,
  ERANGE: 34,
  ENAMETOOLONG: 36,
  ENOLCK: 37,
  ENOSYS: 38,
  ENOTEMPTY: 39,
  ELOOP: 40,
  EXFULL: 54,
  ENODATA: 61,
  EMSGSIZE: 90,
  EPROTONOSUPPORT: 93,
  ESOCKTNOSUPPORT: 94,
  EOPNOTSUPP: 95,
  EAFNOSUPPORT: 97,
  EADDRINUSE: 98,
  EADDRNOTAVAIL: 99,
  ENETDOWN: 100,
  ENETUNREACH: 101,
  ECONNREFUSED: 111,
  ECONNRESET: 104,
  ENOBUFS: 105,
  ENOTCONN: 107,
  ETIMEDOUT: 110,
  EHOSTUNREACH: 113,
  EINPROGRESS: 115,
  ESTALE: 116,
} as const;

const texts: Readonly<Record<keyof typeof Errno, string>> = {
  EPERM: "operation not permitted",
  ENOENT: "no such file or directory",
  ESRCH: "no such object",
  EINTR: "interrupted system call",
  EIO: "input/output error",
  ENXIO: "no such device or address",
  EBADF: "bad file descriptor",
  EAGAIN: "resource temporarily unavailable",
  ENOMEM: "out of memory",
  EACCES: "permission denied",
  EFAULT: "bad address",
  EBUSY: "device or resource busy",
  EEXIST: "already exists",
  EXDEV: "different file systems",
  ENODEV: "no such device",
  ENOTDIR: "not a directory",
  EISDIR: "is a directory",
  EINVAL: "invalid argument",
  ENFILE: "too many open files on the machine",
  EMFILE: "too many open files",
  EFBIG: "file too large",
  ENOSPC: "no space left on device",
  EROFS: "read-only file system",
  ERANGE: "out of range",
  ENAMETOOLONG: "name too long",
  ENOLCK: "no locks available",
  ENOSYS: "not implemented by this kernel",
  ENOTEMPTY: "directory not empty",
  ELOOP: "too many levels of symbolic links",
  EXFULL: "no free slot: a bridge has 1023 ports at most",
  ENODATA: "no data",
  EMSGSIZE: "message too long",
  EPROTONOSUPPORT: "protocol not supported",
  ESOCKTNOSUPPORT: "socket type not supported",
  EOPNOTSUPP: "operation not supported",
  EAFNOSUPPORT: "address family not supported",
  EADDRINUSE: "address in use",
  EADDRNOTAVAIL: "address not available",
  ENETDOWN: "network is down",
  ENETUNREACH: "network is unreachable",
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset",
  ENOBUFS: "no buffer space",
  ENOTCONN: "not connected",
  ETIMEDOUT: "timed out",
  EHOSTUNREACH: "no route to host",
  EINPROGRESS: "in progress",
  ESTALE: "changed meanwhile",
};

/** Searches the table each time: errnos are rare, and an index by number would slow down each start of the plugin. */
function nameOf(errno: number): keyof typeof Errno | undefined {
  let name: keyof typeof Errno;
  for (name in Errno) if (Errno[name] === errno) return name;
  return undefined;
}

/** Returns the symbol of a positive errno ("EEXIST"), or `errno N` for one that this table lacks. */
export function errnoName(errno: number): string {
  return nameOf(errno) ?? `errno ${errno}`;
}

/** Returns the meaning of a positive errno in words. */
export function errnoText(errno: number): string {
  const name = nameOf(errno);
  return name === undefined ? "unknown error" : texts[name];
}
