import koffi from "koffi";
import { Errno } from "../../kernel/syscall/errno.ts";
import { SyscallError, check } from "../../kernel/syscall/syscalls.ts";
import type { LabNamespace } from "./namespace.ts";

/** A program ready to be started: all slow preparations are done before the clock runs. */
export interface Program {
  readonly file: string;
  /** Without argument 0, which is the file. */
  readonly args?: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Files that become descriptors 0, 1 (truncated) and 2 (truncated). */
  readonly stdin: string;
  readonly stdout: string;
  readonly stderr: string;
}

/** The end of a program. */
export interface Ended {
  /** null when a signal ended it. */
  readonly exitCode: number | null;
  /** User and system time, milliseconds. */
  readonly cpuMilliseconds: number;
}

const O_WRONLY = 1;
const O_CREAT = 0o100;
const O_TRUNC = 0o1000;
/** posix_spawn_file_actions_t has 80 bytes in glibc for 64-bit machines. */
const FILE_ACTIONS_SIZE = 128;
/** struct rusage: two timevals of two longs, then 14 longs. */
const RUSAGE_SIZE = 144;

const libc = koffi.load("libc.so.6");
const initialize = libc.func("int posix_spawn_file_actions_init(_Inout_ uint8_t *actions)");
const destroy = libc.func("int posix_spawn_file_actions_destroy(_Inout_ uint8_t *actions)");
const addOpen = libc.func(
  "int posix_spawn_file_actions_addopen(_Inout_ uint8_t *actions, int fd, const char *path, int flags, uint32_t mode)",
);
const posixSpawn = libc.func(
  "int posix_spawn(_Out_ int *pid, const char *path, const uint8_t *actions, const void *attributes, const char **argv, const char **environment)",
);
const wait4 = libc.func("int wait4(int pid, _Out_ int *status, int options, _Out_ uint8_t *usage)");

/**
 * Starts a program in a namespace, and returns its process ID once it has been executed.
 *
 * node:child_process makes four pipes or sockets and reports the end through the event loop, which costs more than the
 * plugins that are measured here. posix_spawn waits in the kernel (CLONE_VFORK) until the new program runs, so the
 * thread can leave the namespace at once. The caller must wait for the process with {@link waitFor}.
 *
 * @throws SyscallError when it cannot be executed
 */
export function startProgram(namespace: LabNamespace, program: Program): number {
  const actions = new Uint8Array(FILE_ACTIONS_SIZE);
  const pid = new Int32Array(1);
  const environment = [...Object.entries(program.environment).map(([name, value]) => `${name}=${value}`), null];
  initialize(actions);
  try {
    addOpen(actions, 0, program.stdin, 0, 0);
    addOpen(actions, 1, program.stdout, O_WRONLY | O_CREAT | O_TRUNC, 0o600);
    addOpen(actions, 2, program.stderr, O_WRONLY | O_CREAT | O_TRUNC, 0o600);
    const argv = [program.file, ...(program.args ?? []), null];
    // posix_spawn returns the errno itself.
    const error = namespace.inside((): unknown => posixSpawn(pid, program.file, actions, null, argv, environment));
    if (error !== 0) throw new SyscallError(`execute ${program.file}`, Number(error));
  } finally {
    destroy(actions);
  }
  return pid[0] ?? 0;
}

/** Waits for the end of a started program, blocking this thread. */
export function waitFor(pid: number): Ended {
  const status = new Int32Array(1);
  const usage = new Uint8Array(RUSAGE_SIZE);
  for (;;) {
    const native: unknown = wait4(pid, status, 0, usage);
    const result = native === -1 ? -koffi.errno() : Number(native);
    if (result === -Errno.EINTR) continue;
    check(result, `wait for process ${pid}`);
    const code = status[0] ?? 0;
    const times = new BigInt64Array(usage.buffer, 0, 4);
    const [userSeconds = 0n, userMicroseconds = 0n, systemSeconds = 0n, systemMicroseconds = 0n] = times;
    return {
      exitCode: (code & 0x7f) === 0 ? (code >> 8) & 0xff : null,
      cpuMilliseconds:
        Number((userSeconds + systemSeconds) * 1_000_000n + userMicroseconds + systemMicroseconds) / 1000,
    };
  }
}
