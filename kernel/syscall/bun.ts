import type { FileCalls } from "./file_calls.ts";
import { pathBytes } from "./file_calls.ts";
import type { Syscalls } from "./syscalls.ts";

/** What the plugin calls: the shared system calls, and `_exit(2)`, which ends it without tearing the runtime down. */
export interface BunSyscalls extends Syscalls, FileCalls {
  exit(code: number): void;
}

type Signature = {
  readonly args: readonly ("i32" | "u32" | "u64" | "ptr")[];
  readonly returns: "i32" | "i64" | "ptr" | "void";
};

const signatures = {
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
  setsockopt: { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" },
  send: { args: ["i32", "ptr", "u64", "i32"], returns: "i64" },
  recvfrom: { args: ["i32", "ptr", "u64", "i32", "ptr", "ptr"], returns: "i64" },
  setns: { args: ["i32", "i32"], returns: "i32" },
  flock: { args: ["i32", "i32"], returns: "i32" },
  open: { args: ["ptr", "i32", "u32"], returns: "i32" },
  read: { args: ["i32", "ptr", "u64"], returns: "i64" },
  write: { args: ["i32", "ptr", "u64"], returns: "i64" },
  close: { args: ["i32"], returns: "i32" },
  link: { args: ["ptr", "ptr"], returns: "i32" },
  rename: { args: ["ptr", "ptr"], returns: "i32" },
  unlink: { args: ["ptr"], returns: "i32" },
  mkdir: { args: ["ptr", "u32"], returns: "i32" },
  getdents64: { args: ["i32", "ptr", "u64"], returns: "i64" },
  statx: { args: ["i32", "ptr", "i32", "u32", "ptr"], returns: "i32" },
  _exit: { args: ["i32"], returns: "void" },
  __errno_location: { args: [], returns: "ptr" },
} as const satisfies Readonly<Record<string, Signature>>;

type NativeCalls = {
  readonly [K in keyof typeof signatures]: (...args: readonly (number | Uint8Array)[]) => number | bigint;
};

/** The native object behind the module `bun:ffi`. Loading that module costs 0.4 ms, which this saves. */
interface NativeFfi {
  dlopen(library: string, symbols: typeof signatures): { readonly symbols: NativeCalls } | Error;
  readonly read: { i32(pointer: number | bigint): number };
}

function isNativeFfi(value: unknown): value is NativeFfi {
  return typeof value === "object" && value !== null && "dlopen" in value && "read" in value;
}

/**
 * The system calls through Bun's FFI: the backend of the plugin executable.
 *
 * errno is read by a second call on the same thread. Between the two only generated call stubs run, no system call
 * of the runtime, so the value is that of the failed call.
 *
 * @throws Error when libc cannot be opened, or this Bun is not the pinned one
 */
export function bunSyscalls(): BunSyscalls {
  const ffi: unknown = Reflect.get(Bun, "FFI");
  if (!isNativeFfi(ffi)) throw new Error("this Bun has no native FFI object: build with the version package.json pins");
  const library = ffi.dlopen("libc.so.6", signatures);
  if (library instanceof Error) throw library;
  const c = library.symbols;
  const outcome = (result: number | bigint): number => {
    const value = Number(result);
    return value === -1 ? -ffi.read.i32(c.__errno_location()) : value;
  };
  const senderLength = new Uint8Array(4);
  const senderLengthView = new Uint32Array(senderLength.buffer);
  return {
    socket: (domain, type, protocol) => outcome(c.socket(domain, type, protocol)),
    bind: (fd, address) => outcome(c.bind(fd, address, address.length)),
    setsockopt: (fd, level, option, value) => outcome(c.setsockopt(fd, level, option, value, value.length)),
    send: (fd, data, flags) => outcome(c.send(fd, data, data.length, flags)),
    receiveFrom: (fd, buffer, flags, sender) => {
      senderLengthView[0] = sender.length;
      return outcome(c.recvfrom(fd, buffer, buffer.length, flags, sender, senderLength));
    },
    setns: (fd, namespaceType) => outcome(c.setns(fd, namespaceType)),
    flock: (fd, operation) => outcome(c.flock(fd, operation)),
    open: (path, flags, mode) => outcome(c.open(pathBytes(path), flags, mode)),
    read: (fd, buffer) => outcome(c.read(fd, buffer, buffer.length)),
    write: (fd, data) => outcome(c.write(fd, data, data.length)),
    close: (fd) => outcome(c.close(fd)),
    link: (existing, name) => outcome(c.link(pathBytes(existing), pathBytes(name))),
    rename: (from, to) => outcome(c.rename(pathBytes(from), pathBytes(to))),
    unlink: (path) => outcome(c.unlink(pathBytes(path))),
    mkdir: (path, mode) => outcome(c.mkdir(pathBytes(path), mode)),
    getdents64: (fd, buffer) => outcome(c.getdents64(fd, buffer, buffer.length)),
    statx: (fd, path, flags, mask, buffer) => outcome(c.statx(fd, pathBytes(path), flags, mask, buffer)),
    exit: (code) => {
      c._exit(code);
    },
  };
}
