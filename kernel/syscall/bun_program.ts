import { littleEndian } from "../netlink/writer.ts";
import { addressOf, openLibc, type Signature } from "./bun_ffi.ts";
import { Errno } from "./errno.ts";
import { OpenFlag, pathBytes } from "./file_calls.ts";
import { DescriptorFlag, POLLFD_SIZE } from "./poll_calls.ts";
import type { ProgramCalls, ProgramStart } from "./program_calls.ts";

const signatures = {
  posix_spawn: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "i32" },
  posix_spawn_file_actions_init: { args: ["ptr"], returns: "i32" },
  posix_spawn_file_actions_adddup2: { args: ["ptr", "i32", "i32"], returns: "i32" },
  posix_spawn_file_actions_destroy: { args: ["ptr"], returns: "i32" },
  posix_spawnattr_init: { args: ["ptr"], returns: "i32" },
  posix_spawnattr_setflags: { args: ["ptr", "i32"], returns: "i32" },
  posix_spawnattr_setsigdefault: { args: ["ptr", "ptr"], returns: "i32" },
  posix_spawnattr_setsigmask: { args: ["ptr", "ptr"], returns: "i32" },
  posix_spawnattr_destroy: { args: ["ptr"], returns: "i32" },
  syscall: { args: ["u64", "u64", "u64", "u64"], returns: "i64" },
  memfd_create: { args: ["ptr", "u32"], returns: "i32" },
  pipe2: { args: ["ptr", "i32"], returns: "i32" },
  waitpid: { args: ["i32", "ptr", "i32"], returns: "i32" },
  kill: { args: ["i32", "i32"], returns: "i32" },
  poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
  open: { args: ["ptr", "i32", "u32"], returns: "i32" },
  read: { args: ["i32", "ptr", "u64"], returns: "i64" },
  write: { args: ["i32", "ptr", "u64"], returns: "i64" },
  close: { args: ["i32"], returns: "i32" },
} as const satisfies Readonly<Record<string, Signature>>;

/** In glibc for 64-bit machines posix_spawn_file_actions_t has 80 bytes, posix_spawnattr_t 336 and sigset_t 128. */
const FILE_ACTIONS_SIZE = 128;
const ATTRIBUTES_SIZE = 512;
const SIGNAL_SET_SIZE = 128;
/** POSIX_SPAWN_SETPGROUP, POSIX_SPAWN_SETSIGDEF, POSIX_SPAWN_SETSIGMASK (spawn.h). */
const SPAWN_FLAGS = 0x02 | 0x04 | 0x08;
/** The number of close_range(2) on every architecture. Only glibc 2.34 and later has its function. */
const SYS_CLOSE_RANGE = 436;
const CLOSE_RANGE_CLOEXEC = 4;
const FIRST_BEHIND_STANDARD = 3;
const LAST_DESCRIPTOR = 0xffff_ffff;
const MFD_CLOEXEC = 1;
const WNOHANG = 1;
const SIGKILL = 9;

const encoder = new TextEncoder();

/**
 * Returns the calls that start programs, by Bun's FFI. They are not in `bun.ts`, where each symbol slows down each
 * start.
 *
 * Bun.spawn would add its own variables, read the output through an event loop, which a call does not have, and create
 * no process group, so that programs started by the program could not be killed with it.
 *
 * @throws Error when libc cannot be opened, or this Bun is not the pinned version
 */
export function bunProgramCalls(): ProgramCalls {
  const { calls: c, outcome } = openLibc(signatures);
  return {
    memoryFile(content) {
      const fd = outcome(c.memfd_create(pathBytes("drawbridge stdin"), MFD_CLOEXEC));
      if (fd < 0) return fd;
      try {
        for (let sent = 0; sent < content.length;) {
          const count = outcome(c.write(fd, content.subarray(sent), content.length - sent));
          if (count < 0 && count !== -Errno.EINTR) return count;
          if (count > 0) sent += count;
        }
        // The file is opened again, so that the new descriptor is at its beginning and cannot change it.
        return outcome(c.open(pathBytes(`/proc/self/fd/${fd}`), OpenFlag.RDONLY | OpenFlag.CLOEXEC, 0));
      } finally {
        c.close(fd);
      }
    },
    pipe() {
      const ends = new Uint8Array(8);
      const result = outcome(c.pipe2(ends, DescriptorFlag.CLOEXEC));
      if (result < 0) return result;
      const view = new DataView(ends.buffer);
      return { read: view.getInt32(0, littleEndian), write: view.getInt32(4, littleEndian) };
    },
    spawn: (start) => spawn(c, outcome, start),
    state(pid) {
      const status = new Uint8Array(4);
      const result = outcome(c.waitpid(pid, status, WNOHANG));
      if (result < 0) return result;
      if (result === 0) return { kind: "running" };
      const code = new DataView(status.buffer).getInt32(0, littleEndian);
      const signal = code & 0x7f;
      return signal === 0 ? { kind: "exited", code: (code >> 8) & 0xff } : { kind: "signalled", signal };
    },
    killGroup: (pid) => outcome(c.kill(-pid, SIGKILL)),
    poll: (entries, milliseconds) => outcome(c.poll(entries, entries.length / POLLFD_SIZE, milliseconds)),
    read: (fd, buffer) => outcome(c.read(fd, buffer, buffer.length)),
    close: (fd) => outcome(c.close(fd)),
  };
}

type LibraryCalls = ReturnType<typeof openLibc<typeof signatures>>;

function spawn(c: LibraryCalls["calls"], outcome: LibraryCalls["outcome"], start: ProgramStart): number {
  const { file, environment, descriptors } = start;
  // The program must not inherit descriptors of the runtime that are still open.
  const marked = outcome(c.syscall(SYS_CLOSE_RANGE, FIRST_BEHIND_STANDARD, LAST_DESCRIPTOR, CLOSE_RANGE_CLOEXEC));
  if (marked < 0) return marked;
  const actions = new Uint8Array(FILE_ACTIONS_SIZE);
  const attributes = new Uint8Array(ATTRIBUTES_SIZE);
  const pid = new Uint8Array(4);
  const path = pathBytes(file);
  const argv = stringArray([path]);
  const variables = stringArray(environment.map((variable) => encoder.encode(`${variable}\0`)));
  c.posix_spawn_file_actions_init(actions);
  c.posix_spawnattr_init(attributes);
  try {
    for (const [number, ours] of descriptors) c.posix_spawn_file_actions_adddup2(actions, ours, number);
    c.posix_spawnattr_setflags(attributes, SPAWN_FLAGS);
    c.posix_spawnattr_setsigdefault(attributes, new Uint8Array(SIGNAL_SET_SIZE).fill(0xff));
    c.posix_spawnattr_setsigmask(attributes, new Uint8Array(SIGNAL_SET_SIZE));
    // posix_spawn returns the errno itself.
    const error = Number(c.posix_spawn(pid, path, actions, attributes, argv.pointers, variables.pointers));
    // The collector does not move an array whose address was taken; all strings are still in use here.
    if (error !== 0 || argv.strings.length === 0) return -error;
    return new DataView(pid.buffer).getInt32(0, littleEndian);
  } finally {
    c.posix_spawnattr_destroy(attributes);
    c.posix_spawn_file_actions_destroy(actions);
    variables.strings.length = 0;
  }
}

/** Returns a `char *[]` with its NULL, and the strings that it points to, which must outlive its use. */
function stringArray(strings: Uint8Array[]): { readonly pointers: Uint8Array; readonly strings: Uint8Array[] } {
  const pointers = new Uint8Array((strings.length + 1) * 8);
  const view = new DataView(pointers.buffer);
  for (const [i, string] of strings.entries()) view.setBigUint64(i * 8, addressOf(string), littleEndian);
  return { pointers, strings };
}
