/** The machines with a shim, by the names of `process.arch`. */
export type Machine = "x64" | "arm64";

/** A call's numbers: arch/x86/entry/syscalls/syscall_64.tbl for x86-64, asm-generic/unistd.h for arm64. */
type Numbers = Readonly<Record<Machine, number>>;

/** The system calls of the shim, which both machines have: arm64 has no open, dup2, fork, mkdir or readlink. */
export const systemCalls = {
  read: { x64: 0, arm64: 63 },
  write: { x64: 1, arm64: 64 },
  pread64: { x64: 17, arm64: 67 },
  close: { x64: 3, arm64: 57 },
  lseek: { x64: 8, arm64: 62 },
  socket: { x64: 41, arm64: 198 },
  connect: { x64: 42, arm64: 203 },
  recvfrom: { x64: 45, arm64: 207 },
  sendmsg: { x64: 46, arm64: 211 },
  setsockopt: { x64: 54, arm64: 208 },
  clone: { x64: 56, arm64: 220 },
  execve: { x64: 59, arm64: 221 },
  fcntl: { x64: 72, arm64: 25 },
  flock: { x64: 73, arm64: 32 },
  chdir: { x64: 80, arm64: 49 },
  setsid: { x64: 112, arm64: 157 },
  clock_gettime: { x64: 228, arm64: 113 },
  exit_group: { x64: 231, arm64: 94 },
  openat: { x64: 257, arm64: 56 },
  mkdirat: { x64: 258, arm64: 34 },
  readlinkat: { x64: 267, arm64: 78 },
  dup3: { x64: 292, arm64: 24 },
  memfd_create: { x64: 319, arm64: 279 },
  close_range: { x64: 436, arm64: 436 },
} as const satisfies Readonly<Record<string, Numbers>>;

export type SystemCall = keyof typeof systemCalls;

/** O_NOFOLLOW of open(2): asm-generic/fcntl.h, and arch/arm64/include/uapi/asm/fcntl.h, which differs. */
export const noFollow: Numbers = { x64: 0o400000, arm64: 0o100000 };
