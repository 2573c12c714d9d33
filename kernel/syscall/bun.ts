import type { BpfCall } from "./bpf_calls.ts";
import { bunBpf } from "./bun_bpf.ts";
import { openLibc, type Signature } from "./bun_ffi.ts";
import { pathBytes } from "./file_calls.ts";
import type { MachineCalls } from "./machine_calls.ts";

/** The plugin's calls: the shared system calls, and `_exit(2)`, which ends it without tearing the runtime down. */
export interface BunSyscalls extends MachineCalls {
  exit(code: number): void;
}

const signatures = {
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
  connect: { args: ["i32", "ptr", "u32"], returns: "i32" },
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
} as const satisfies Readonly<Record<string, Signature>>;

/**
 * Returns the system calls through Bun's FFI, the backend of the plugin executable.
 *
 * @throws Error when libc cannot be opened, or this Bun is not the pinned version
 */
export function bunSyscalls(): BunSyscalls {
  const { calls: c, outcome } = openLibc(signatures);
  const senderLength = new Uint8Array(4);
  const senderLengthView = new Uint32Array(senderLength.buffer);
  let opened: BpfCall | undefined;
  const bpf: BpfCall = (command, attributes, arrays) => (opened ??= bunBpf())(command, attributes, arrays);
  return {
    socket: (domain, type, protocol) => outcome(c.socket(domain, type, protocol)),
    bind: (fd, address) => outcome(c.bind(fd, address, address.length)),
    connect: (fd, address) => outcome(c.connect(fd, address, address.length)),
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
    bpf,
    openBpf: bpf,
    exit: (code) => {
      c._exit(code);
    },
  };
}
