import process from "node:process";
import koffi from "koffi";
import type { BackgroundCalls } from "./background_calls.ts";
import { type BpfCall, type BpfCalls, bpfNumber, setAddresses } from "./bpf_calls.ts";
import { Errno } from "./errno.ts";
import { type FileCalls, pathBytes } from "./file_calls.ts";
import type { NamespaceCalls } from "./namespace_calls.ts";
import { FilterOption, filterProgram, type PollCalls, POLLFD_SIZE } from "./poll_calls.ts";
import { realWaiting, type Waiting } from "../waiting.ts";
import type { Syscalls } from "./syscalls.ts";

type Arguments = readonly (number | Uint8Array | Uint32Array)[];
type NativeCall = (...args: Arguments) => number;
type BackgroundCall = (...args: Arguments) => Promise<number>;

type NodeCalls = Syscalls & FileCalls & PollCalls & BackgroundCalls & MemoryCalls & BpfCalls & NamespaceCalls;

/**
 * Returns the system calls through koffi, the backend of the daemon, the lab and the tests, on Node.
 *
 * Calls are synchronous and block the event loop, so only sockets that answer at once (netlink requests) are read this
 * way on the main thread.
 */
export function nodeSyscalls(): NodeCalls {
  const libc = koffi.load("libc.so.6");
  const declare = (prototype: string): NativeCall => {
    const native: (...args: unknown[]) => unknown = libc.func(prototype);
    return (...args) => {
      const result = Number(native(...args));
      return result === -1 ? -koffi.errno() : result;
    };
  };
  const declareInBackground = (prototype: string): BackgroundCall => {
    const native = libc.func(prototype);
    return (...args) =>
      new Promise((settle) => {
        native.async(...args, (error: unknown, result: unknown) => {
          if (error !== null) settle(-Errno.EIO);
          else settle(Number(result) >= 0 ? Number(result) : -koffi.errno());
        });
      });
  };
  const socket = declare("int socket(int domain, int type, int protocol)");
  const bind = declare("int bind(int fd, const uint8_t *address, uint32_t length)");
  const connect = declare("int connect(int fd, const uint8_t *address, uint32_t length)");
  const setsockopt = declare("int setsockopt(int fd, int level, int option, const uint8_t *value, uint32_t length)");
  const send = declare("int64_t send(int fd, const uint8_t *data, size_t length, int flags)");
  const recvfrom = declare(
    "int64_t recvfrom(int fd, _Out_ uint8_t *data, size_t length, int flags, _Out_ uint8_t *sender, _Inout_ uint32_t *senderLength)",
  );
  const setns = declare("int setns(int fd, int type)");
  const unshare = declare("int unshare(int flags)");
  const flock = declare("int flock(int fd, int operation)");
  const open = declare("int open(const uint8_t *path, int flags, uint32_t mode)");
  const read = declare("int64_t read(int fd, _Out_ uint8_t *data, size_t length)");
  const pread = declare("int64_t pread64(int fd, _Out_ uint8_t *data, size_t length, int64_t offset)");
  const write = declare("int64_t write(int fd, const uint8_t *data, size_t length)");
  const close = declare("int close(int fd)");
  const link = declare("int link(const uint8_t *existing, const uint8_t *name)");
  const rename = declare("int rename(const uint8_t *from, const uint8_t *to)");
  const unlink = declare("int unlink(const uint8_t *path)");
  const mkdir = declare("int mkdir(const uint8_t *path, uint32_t mode)");
  const getdents64 = declare("int64_t getdents64(int fd, _Out_ uint8_t *data, size_t length)");
  const statx = declare("int statx(int fd, const uint8_t *path, int flags, uint32_t mask, _Out_ uint8_t *buffer)");
  const mallocTrim = declare("int malloc_trim(size_t pad)");
  const eventfd = declare("int eventfd(uint32_t initial, int flags)");
  const sendInBackground = declareInBackground("int64_t send(int fd, const uint8_t *data, size_t length, int flags)");
  const POLL = "int poll(_Inout_ uint8_t *entries, unsigned long count, int milliseconds)";
  const pollInBackground = declareInBackground(POLL);
  const poll = declare(POLL);
  const syscall = declare("int64_t syscall(int64_t number, int command, _Inout_ uint8_t *attributes, uint32_t size)");
  const number = bpfNumber(process.arch);
  const bpf: BpfCall = (command, attributes, arrays) => {
    if (number === undefined) return -Errno.ENOSYS;
    // V8 does not move an array whose address was taken, and all arrays are in use until the call is over.
    setAddresses(attributes, arrays, (array) => koffi.address(array));
    return syscall(number, command, attributes, attributes.length);
  };
  const senderLength = new Uint32Array(1);
  return {
    socket,
    bind: (fd, address) => bind(fd, address, address.length),
    connect: (fd, address) => connect(fd, address, address.length),
    setsockopt: (fd, level, option, value) => setsockopt(fd, level, option, value, value.length),
    send: (fd, data, flags) => send(fd, data, data.length, flags),
    receiveFrom: (fd, buffer, flags, sender) => {
      senderLength[0] = sender.length;
      return recvfrom(fd, buffer, buffer.length, flags, sender, senderLength);
    },
    setns,
    unshare,
    flock,
    lock: (fd, milliseconds) => polledLock(flock, fd, milliseconds, realWaiting),
    open: (path, flags, mode) => open(pathBytes(path), flags, mode),
    read: (fd, buffer) => read(fd, buffer, buffer.length),
    pread: (fd, buffer, offset) => pread(fd, buffer, buffer.length, offset),
    write: (fd, data) => write(fd, data, data.length),
    close,
    link: (existing, name) => link(pathBytes(existing), pathBytes(name)),
    rename: (from, to) => rename(pathBytes(from), pathBytes(to)),
    unlink: (path) => unlink(pathBytes(path)),
    mkdir: (path, mode) => mkdir(pathBytes(path), mode),
    getdents64: (fd, buffer) => getdents64(fd, buffer, buffer.length),
    statx: (fd, path, flags, mask, buffer) => statx(fd, pathBytes(path), flags, mask, buffer),
    bpf,
    openBpf: bpf,
    eventfd,
    attachFilter: (fd, program) => {
      // V8 does not move an array whose address was taken, and the kernel copies the program during the call.
      const value = filterProgram(program, koffi.address(program));
      return setsockopt(fd, FilterOption.LEVEL, FilterOption.ATTACH, value, value.length);
    },
    trimMemory: () => mallocTrim(0) === 1,
    sendInBackground: (fd, data) => sendInBackground(fd, data, data.length, 0),
    pollInBackground: (entries, milliseconds) => pollInBackground(entries, entries.length / POLLFD_SIZE, milliseconds),
    poll: (entries, milliseconds) => poll(entries, entries.length / POLLFD_SIZE, milliseconds),
  };
}

/** flock(2). */
const LOCK_EX = 2;
const LOCK_NB = 4;

const FIRST_PAUSE_MILLISECONDS = 0.1;
const LONGEST_PAUSE_MILLISECONDS = 4;

/**
 * Takes LOCK_EX by trying again and again, and returns as `lock` of syscalls.ts. In Node nothing could interrupt a call
 * that waits in the kernel; the plugin's executable waits there (cni/native/calls.c).
 */
export function polledLock(
  flock: (fd: number, operation: number) => number,
  fd: number,
  milliseconds: number,
  waiting: Waiting,
): number {
  const deadline = waiting.now() + milliseconds;
  for (let pause = FIRST_PAUSE_MILLISECONDS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MILLISECONDS)) {
    const result = flock(fd, LOCK_EX | LOCK_NB);
    if (result !== -Errno.EAGAIN && result !== -Errno.EINTR) return result;
    if (waiting.now() >= deadline) return -Errno.EAGAIN;
    waiting.pause(pause * (0.5 + Math.random() / 2));
  }
}

/** The C library's memory functions. Only the daemon uses them. */
interface MemoryCalls {
  /**
   * malloc_trim(3): returns freed memory to the kernel, also from the middle; malloc itself only from the end.
   *
   * @returns whether any memory was returned
   */
  trimMemory(): boolean;
}
