import assert from "node:assert/strict";
import type { SystemCall } from "../../../../cni/shim/system_call.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { type CallKernel, Ended, type Memory } from "./interpreter.ts";

/** The open file of a descriptor; two descriptors may share one, and its offset. */
interface Description {
  readonly name: string;
  position: number;
  readonly closesOnExec: boolean;
}

/** The state of the node on which a shim runs. Absent members mean a healthy node. */
export interface Circumstances {
  /** The results of reading standard input, call by call: bytes, or minus an errno; then the end. */
  readonly input?: readonly (Uint8Array | number)[];
  /**
   * The results that calls of a name return one after the other instead of being carried out; `undefined` carries one
   * out.
   */
  readonly results?: Partial<Readonly<Record<SystemCall, readonly (number | undefined)[]>>>;
  /**
   * The plugin server, if there is one: the bytes that it sends, or minus an errno, and what it appends to the memory
   * that it gets.
   */
  readonly server?: { readonly answers: readonly number[]; readonly output: string };
  /** The descriptors that are open at the start; standard input, output and error by default. */
  readonly open?: readonly number[];
  /** Whether the interpretation continues as the child of clone. */
  readonly isChild?: boolean;
  readonly ownPath?: string;
  /** The file in which the plugin keeps its answer to STATUS; by default there is none. */
  readonly keptAnswer?: Uint8Array;
  /** The seconds since the boot. */
  readonly uptime?: number;
  /** The largest number of bytes that a write to standard output takes. */
  readonly mostWritten?: number;
}

/** The visible effects of a shim. */
export interface Seen {
  /** The names of the system calls, in their order. */
  readonly calls: readonly SystemCall[];
  readonly output: string;
  /** The memory into which standard input was read. */
  readonly memory: Uint8Array;
  /** The server's request: its bytes, and the names of the files whose descriptors come with it. */
  readonly request?: { readonly argc: number; readonly strings: string; readonly rights: readonly string[] };
  readonly exitCode?: number;
  readonly executed?: {
    readonly path: string;
    readonly args: readonly string[];
    readonly environment: readonly string[];
    /** The descriptors of the executed program, each with the name and the position of its file. */
    readonly files: readonly string[];
  };
}

const CHILD = 4711;
const KEPT_ANSWER = "/run/drawbridge-plugin/status";
const MFD_CLOEXEC = 1;
const O_CLOEXEC = 0o2000000;
const SOCK_CLOEXEC = 0o2000000;

/** Returns a kernel for one process, and a function that returns what the kernel has seen of it. */
export function shimKernel(circumstances: Circumstances): { readonly kernel: CallKernel; readonly seen: () => Seen } {
  const input = [...(circumstances.input ?? [])];
  const answers = [...(circumstances.server?.answers ?? [])];
  const results = new Map(Object.entries(circumstances.results ?? {}).map(([call, queue]) => [call, [...queue]]));
  const names = ["standard input", "standard output", "standard error"];
  const files = new Map<number, Description>();
  const calls: SystemCall[] = [];
  let contents = Buffer.alloc(0);
  let output = "";
  let request: Seen["request"];
  let exitCode: number | undefined;
  let executed: Seen["executed"];

  const open = (name: string, closesOnExec: boolean): number => {
    let fd = 0;
    while (files.has(fd)) fd += 1;
    files.set(fd, { name, position: 0, closesOnExec });
    return fd;
  };
  for (const fd of circumstances.open ?? [0, 1, 2])
    files.set(fd, { name: names[fd] ?? `file ${fd}`, position: 0, closesOnExec: false });
  const file = (fd: number): Description | undefined => files.get(fd);

  const read = (fd: number, address: number, length: number, memory: Memory): number => {
    const from = file(fd);
    if (from === undefined) return -Errno.EBADF;
    if (from.name === "memory") {
      const bytes = contents.subarray(from.position, from.position + length);
      memory.bytes(address, bytes.length).set(bytes);
      from.position += bytes.length;
      return bytes.length;
    }
    if (from.name === KEPT_ANSWER) {
      const bytes = (circumstances.keptAnswer ?? new Uint8Array()).subarray(0, length);
      memory.bytes(address, bytes.length).set(bytes);
      return bytes.length;
    }
    const next = input.shift() ?? 0;
    if (typeof next === "number") return next;
    assert.ok(next.length <= length, "the test gives more at once than is asked for");
    memory.bytes(address, next.length).set(next);
    return next.length;
  };
  const write = (fd: number, address: number, length: number, memory: Memory): number => {
    const to = file(fd);
    if (to === undefined) return -Errno.EBADF;
    const bytes = memory.bytes(
      address,
      to.name === "memory" ? length : Math.min(length, circumstances.mostWritten ?? length),
    );
    if (to.name === "memory") {
      assert.equal(to.position, contents.length);
      contents = Buffer.concat([contents, bytes]);
      to.position = contents.length;
    } else output += new TextDecoder().decode(bytes);
    return bytes.length;
  };
  const sendmsg = (address: number, memory: Memory): number => {
    if (circumstances.server === undefined) return -Errno.ENOTCONN;
    const vectors = memory.load(address + 16, 8);
    assert.equal(memory.load(address + 24, 8), 2);
    const [base = 0, length = 0, stringsBase = 0, stringsLength = 0] = [0, 8, 16, 24].map((at) =>
      memory.load(vectors + at, 8),
    );
    assert.equal(length, 8);
    const control = memory.load(address + 32, 8);
    assert.deepEqual([memory.load(address + 40, 8), memory.load(control, 8)], [32, 28]);
    assert.deepEqual([memory.load(control + 8, 4), memory.load(control + 12, 4)], [1, 1]);
    const rights = [16, 20, 24].map((at) => file(memory.load(control + at, 4))?.name ?? "nothing");
    const strings = new TextDecoder().decode(memory.bytes(stringsBase, stringsLength));
    request = { argc: memory.load(base, 8), strings, rights };
    return 8 + stringsLength;
  };
  /**
   * Receives one byte of the server, or its end. With the exit code the server has read all its input and appended its
   * output.
   */
  const receive = (address: number, memory: Memory): number => {
    const answer = answers.shift();
    if (answer === undefined || answer < 0) return answer ?? 0;
    memory.store(address, 1, answer);
    if (answer <= 127) contents = Buffer.concat([contents, Buffer.from(circumstances.server?.output ?? "")]);
    return 1;
  };

  const carryOut: Readonly<Record<SystemCall, (args: readonly number[], memory: Memory) => number>> = {
    memfd_create: ([, flags = 0]) => open("memory", (flags & MFD_CLOEXEC) !== 0),
    read: ([fd = 0, address = 0, length = 0], memory) => read(fd, address, length, memory),
    write: ([fd = 0, address = 0, length = 0], memory) => write(fd, address, length, memory),
    lseek: ([fd = 0, offset = 0, whence = 0]) => {
      assert.equal(whence, 0);
      const at = file(fd);
      if (at?.name !== "memory") return -Errno.EBADF;
      at.position = offset;
      return offset;
    },
    dup3: ([from = 0, to = 0]) => {
      const found = file(from);
      if (from === to) return -Errno.EINVAL;
      if (found === undefined) return -Errno.EBADF;
      const { name } = found;
      // The two descriptors share the offset, but not the flag.
      files.set(to, {
        name,
        closesOnExec: false,
        get position() {
          return found.position;
        },
        set position(value) {
          found.position = value;
        },
      });
      return to;
    },
    // Reads the memory like read, without moving the offset.
    pread64: ([fd = 0, address = 0, length = 0, offset = 0], memory) => {
      if (file(fd)?.name !== "memory") return -Errno.EBADF;
      const bytes = contents.subarray(offset, offset + length);
      memory.bytes(address, bytes.length).set(bytes);
      return bytes.length;
    },
    clock_gettime: ([clock, address = 0], memory) => {
      assert.equal(clock, 7);
      memory.store(address, 8, circumstances.uptime ?? 0);
      return 0;
    },
    close: ([fd = 0]) => (files.delete(fd) ? 0 : -Errno.EBADF),
    close_range: ([first = 0]) => {
      for (const fd of files.keys()) if (fd >= first) files.delete(fd);
      return 0;
    },
    socket: ([, type = 0]) => open("socket", type >= SOCK_CLOEXEC),
    connect: ([fd = 0, address = 0, length = 0], memory) => {
      assert.equal(file(fd)?.name, "socket");
      assert.deepEqual(
        new TextDecoder().decode(memory.bytes(address, length)),
        "\u0001\0/run/drawbridge-plugin/socket\0",
      );
      return circumstances.server === undefined ? -Errno.ECONNREFUSED : 0;
    },
    openat: ([, path = 0, flags = 0], memory) => {
      const isMissing = memory.string(path) === KEPT_ANSWER && circumstances.keptAnswer === undefined;
      return isMissing ? -Errno.ENOENT : open(memory.string(path), flags >= O_CLOEXEC);
    },
    sendmsg: ([, message = 0], memory) => sendmsg(message, memory),
    recvfrom: ([, address = 0, length = 0], memory) => {
      assert.equal(length, 1);
      return receive(address, memory);
    },
    setsockopt: ([, level, , address = 0, length], memory) => {
      assert.deepEqual([level, length, memory.load(address, 8), memory.load(address + 8, 8)], [1, 16, 2, 0]);
      return 0;
    },
    // The server has not taken the call.
    fcntl: ([fd, command, seals]) => {
      assert.deepEqual([fd, command, seals], [0, 1033, 1]);
      return 0;
    },
    clone: () => (circumstances.isChild === true ? 0 : CHILD),
    flock: () => 0,
    mkdirat: () => 0,
    setsid: () => CHILD,
    chdir: () => 0,
    readlinkat: ([, , address = 0, length = 0], memory) => {
      const path = new TextEncoder().encode(circumstances.ownPath ?? "/opt/cni/bin/drawbridge").subarray(0, length);
      memory.bytes(address, path.length).set(path);
      return path.length;
    },
    execve: ([path = 0, args = 0, environment = 0], memory) => {
      const kept = [...files].filter(([, { closesOnExec }]) => !closesOnExec).sort(([a], [b]) => a - b);
      executed = {
        path: memory.string(path),
        args: memory.strings(args),
        environment: memory.strings(environment),
        files: kept.map(([fd, { name, position }]) => `${fd} ${name}${position === 0 ? "" : ` at ${position}`}`),
      };
      throw new Ended();
    },
    exit_group: ([code = 0]) => {
      exitCode = code;
      throw new Ended();
    },
  };
  return {
    kernel: (call, args, memory) => {
      calls.push(call);
      return results.get(call)?.shift() ?? carryOut[call](args, memory);
    },
    seen: () => ({
      calls,
      output,
      memory: new Uint8Array(contents),
      ...(request === undefined ? {} : { request }),
      ...(exitCode === undefined ? {} : { exitCode }),
      ...(executed === undefined ? {} : { executed }),
    }),
  };
}
