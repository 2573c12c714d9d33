/**
 * The errnos that we branch on.
 *
 * The numbers are those of asm-generic/errno.h, shared by x64, arm64, riscv and s390x.
 */
export const Errno = {
  EPERM: 1,
  ENOENT: 2,
  EINTR: 4,
  EIO: 5,
  ENXIO: 6,
  EBADF: 9,
  EAGAIN: 11,
  ENOMEM: 12,
  EACCES: 13,
  EBUSY: 16,
  EEXIST: 17,
  ENODEV: 19,
  ENOTDIR: 20,
  EISDIR: 21,
  EINVAL: 22,
  ENFILE: 23,
  EMFILE: 24,
  EFBIG: 27,
  EROFS: 30,
  ERANGE: 34,
  ENOSYS: 38,
  ELOOP: 40,
  EXFULL: 54,
  EMSGSIZE: 90,
  EPROTONOSUPPORT: 93,
  EOPNOTSUPP: 95,
  EADDRINUSE: 98,
  ENETDOWN: 100,
  ECONNREFUSED: 111,
  ENOBUFS: 105,
  ETIMEDOUT: 110,
  EHOSTUNREACH: 113,
  EINPROGRESS: 115,
} as const;

/** The meanings of the errnos with which netlink and the file system commonly answer. */
const TEXTS: Readonly<Record<string, string>> = {
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

/** The symbols of all errnos from 1 on, also of those that we do not branch on; "-" has none. */
const NAMES =
  "EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK " +
  "EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE " +
  "EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP - ENOMSG EIDRM " +
  "ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT " +
  "- EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP " +
  "EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ " +
  "ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT " +
  "ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH " +
  "ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT " +
  "ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM " +
  "EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED " +
  "EOWNERDEAD ENOTRECOVERABLE ERFKILL EHWPOISON";

/**
 * Returns the symbol of a positive errno ("EEXIST"), or `errno N` for one that the kernel keeps to itself. It searches
 * each time: errnos are rare, and an index by number would slow down each start of the plugin.
 */
export function errnoName(errno: number): string {
  const name = NAMES.split(" ")[errno - 1] ?? "-";
  return name === "-" ? `errno ${errno}` : name;
}

/** Returns the meaning of a positive errno in words. */
export function errnoText(errno: number): string {
  return TEXTS[errnoName(errno)] ?? "unknown error";
}
