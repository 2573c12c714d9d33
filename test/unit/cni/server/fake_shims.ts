import assert from "node:assert/strict";
import type { PluginMachine } from "../../../../cni/host.ts";
import { PluginServer, type ServerLimits } from "../../../../cni/server/server.ts";
import { littleEndian } from "../../../../kernel/netlink/writer.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import type { MachineCalls } from "../../../../kernel/syscall/machine_calls.ts";
import { POLLFD_SIZE } from "../../../../kernel/syscall/poll_calls.ts";
import type { ServerCalls } from "../../../../kernel/syscall/server_calls.ts";
import { fakeNode } from "../../../support/cni/fake_node.ts";

const LISTENER = 50;
const FIRST_DESCRIPTOR = 100;
const MOST_POLLS = 10_000;
const AF_UNIX = 1;
const HERE = 4026531841n;
const encoder = new TextEncoder();

export const IDLE_MILLISECONDS = 60_000;
/** The time that a DEL waits for a daemon that does not answer (cni/attachment/registration.ts). */
export const DAEMON_MILLISECONDS = 10_000;

/** A request of a shim. */
export interface FakeRequest {
  readonly environment?: Readonly<Record<string, string>>;
  readonly argv?: readonly string[];
  readonly stdin?: string;
  /** The inode of its mount namespace. */
  readonly mounts?: bigint;
  /** Instead of argv and environment. */
  readonly message?: Uint8Array;
  /** The number of descriptors that come with the message. */
  readonly descriptors?: number;
  /** The result of receiving the message when it fails: minus the errno. */
  readonly failure?: number;
  /** Whether the shim sends nothing until {@link FakeShim.isSilent} is false. */
  readonly isSilent?: boolean;
}

/** A shim as the server sees it. */
export class FakeShim {
  readonly request: FakeRequest;
  /** The bytes that the server sent to it. */
  readonly heard: number[] = [];
  output = "";
  isAlive = true;
  isSilent: boolean;
  /** Whether its call is taken: by the server, or by the shim itself, if a test sets it. */
  isTaken = false;
  /** Whether the memory file is full. */
  isFull = false;
  unread: Uint8Array;

  constructor(request: FakeRequest) {
    this.request = request;
    this.isSilent = request.isSilent === true;
    this.unread = encoder.encode(request.stdin ?? "{}");
  }
}

/** One of the server's connections to a daemon. */
export class FakeDaemonConnection {
  /** The bytes that can be read; an empty array is the end. */
  answer: Uint8Array | undefined;
}

/** A mount namespace that cannot be read. */
export const NO_NAMESPACE = 0n;

/**
 * Fakes shims, daemons, and the kernel between them and a plugin server. Time passes, and the events of {@link later}
 * happen, whenever the server waits and nothing is ready.
 */
export class FakeShims {
  /**
   * The events in order: "tell c1 254" (by the container), "node" when a node is made, "ask from NAMESPACE" when the
   * daemon is asked.
   */
  readonly journal: string[] = [];
  /** The open descriptors and their purposes. */
  readonly open = new Map<number, string>();
  readonly daemons: FakeDaemonConnection[] = [];
  /** The network namespaces, by descriptor, in which the server waited without a call. */
  readonly waitedIn: (number | "home")[] = [];
  /** The number of times that the alarm was set to a time. */
  alarms = 0;
  isCurrent = true;
  /** Whether the server has reached its limit of descriptors. */
  isFull = false;
  readonly #events: (() => void)[] = [];
  readonly #backlog: FakeShim[] = [];
  readonly #clients = new Map<number, FakeShim>();
  readonly #files = new Map<number, FakeShim>();
  readonly #mounts = new Map<number, bigint>();
  readonly #connections = new Map<number, FakeDaemonConnection>();
  #inside: number | "home" = "home";
  #now = 0;
  #alarm = 0;
  #next = FIRST_DESCRIPTOR;
  #polls = 0;

  /** The milliseconds since the server began. */
  get now(): number {
    return this.#now;
  }

  /** Connects a shim, which the server may accept from now on. */
  connect(request: FakeRequest): FakeShim {
    const shim = new FakeShim(request);
    this.#backlog.push(shim);
    return shim;
  }

  /**
   * Connects a shim with a DEL that asks the daemon, waits for the answer, and then fails, since there are no netlink
   * sockets.
   */
  connectDel(containerId: string): FakeShim {
    return this.connect({
      environment: { CNI_COMMAND: "DEL", CNI_CONTAINERID: containerId, CNI_IFNAME: "eth0" },
      stdin: JSON.stringify({ cniVersion: "1.1.0", name: "n", runDir: "/nowhere/run", policyd: {} }),
    });
  }

  /** Schedules an event for the next time the server waits and nothing is ready; several happen in their order. */
  later(event: () => void): void {
    this.#events.push(event);
  }

  /** Serves until the server ends. */
  serve(limits: Partial<ServerLimits> = {}): void {
    this.open.set(LISTENER, "listener");
    const tools = {
      syscalls: this.#syscalls(),
      calls: this.#calls(),
      makeNode: (syscalls: MachineCalls): PluginMachine => {
        this.journal.push("node");
        return { ...fakeNode("/nowhere"), syscalls };
      },
      waiting: { now: () => this.#now },
      mounts: { device: "0:4", inode: HERE },
      isCurrent: () => this.isCurrent,
      rest: () => (this.#inside = "home"),
    };
    new PluginServer(tools, LISTENER, { idleMilliseconds: IDLE_MILLISECONDS, calls: 10_000, ...limits }).run();
  }

  #newDescriptor(what: string): number {
    const fd = this.#next++;
    this.open.set(fd, what);
    return fd;
  }

  #syscalls(): MachineCalls {
    return {
      ...fakeNode("/nowhere").syscalls,
      setsockopt: () => 0,
      send: (fd, data) => this.#send(fd, data),
      setns: (fd) => {
        assert.match(this.open.get(fd) ?? "nothing", /network/);
        this.#inside = fd;
        return 0;
      },
      close: (fd) => {
        assert.ok(this.open.delete(fd), `${fd} is closed twice`);
        return 0;
      },
      open: (path) => (path === "/proc/thread-self/ns/net" ? this.#newDescriptor("network, by path") : -Errno.ENOENT),
      read: (fd, buffer) => {
        const file = this.#files.get(fd);
        assert.ok(file !== undefined && this.open.has(fd));
        const piece = file.unread.subarray(0, buffer.length);
        file.unread = file.unread.subarray(piece.length);
        buffer.set(piece);
        return piece.length;
      },
      write: (fd, data) => {
        const file = this.#files.get(fd);
        assert.ok(file !== undefined && this.open.has(fd));
        if (file.isFull) return -Errno.ENOSPC;
        file.output += new TextDecoder().decode(data);
        return data.length;
      },
      statx: (fd, _path, _flags, _mask, buffer) => {
        if (this.#mounts.get(fd) === NO_NAMESPACE) return -Errno.EACCES;
        const view = new DataView(buffer.buffer);
        view.setBigUint64(32, this.#mounts.get(fd) ?? 1n, littleEndian);
        view.setUint32(140, 4, littleEndian);
        return 0;
      },
      socket: (domain) => {
        if (domain !== AF_UNIX) return -Errno.EPERM;
        const fd = this.#newDescriptor("daemon");
        const connection = new FakeDaemonConnection();
        this.#connections.set(fd, connection);
        this.daemons.push(connection);
        this.journal.push(`ask from ${this.#inside}`);
        return fd;
      },
      connect: () => 0,
      receiveFrom: (fd, buffer) => {
        const answer = this.#connections.get(fd)?.answer;
        if (answer === undefined) {
          assert.ok(this.#now >= DAEMON_MILLISECONDS, "it would block all other calls");
          return -Errno.ECONNRESET;
        }
        buffer.set(answer);
        return answer.length;
      },
    };
  }

  #calls(): ServerCalls {
    return {
      listen: () => 0,
      accept: () => {
        if (this.isFull) return -Errno.EMFILE;
        const shim = this.#backlog.shift();
        if (shim === undefined) return -Errno.EAGAIN;
        const fd = this.#newDescriptor("client");
        this.#clients.set(fd, shim);
        return fd;
      },
      receiveMessage: (fd, buffer, control) => {
        const shim = this.#clients.get(fd);
        assert.ok(shim !== undefined);
        return this.#receive(shim, buffer, control);
      },
      addSeals: (fd, seals) => {
        assert.equal(seals, 1, "the seal against further seals");
        const shim = this.#files.get(fd);
        assert.ok(shim !== undefined);
        if (shim.isTaken) return -Errno.EPERM;
        shim.isTaken = true;
        return 0;
      },
      alarm: (seconds) => {
        if (seconds > 0) this.alarms++;
        this.#alarm = seconds;
        return 0;
      },
      poll: (entries, milliseconds) => this.#poll(entries, milliseconds),
    };
  }

  #send(fd: number, data: Uint8Array): number {
    assert.ok(this.#alarm > 0, "nothing ends a server that is stuck in this call");
    const shim = this.#clients.get(fd);
    if (shim === undefined) return data.length;
    assert.ok(this.open.has(fd));
    if (!shim.isAlive) return -Errno.ECONNRESET;
    shim.heard.push(...data);
    this.journal.push(`tell ${shim.request.environment?.["CNI_CONTAINERID"] ?? "?"} ${data.join()}`);
    return data.length;
  }

  #receive(shim: FakeShim, buffer: Uint8Array, control: Uint8Array): number {
    const { request } = shim;
    control.fill(0);
    if (shim.isSilent) return shim.isAlive ? -Errno.EAGAIN : 0;
    const descriptors = ["input", "network", "mounts", "further"].slice(0, request.descriptors ?? 3);
    const view = new DataView(control.buffer, control.byteOffset, control.byteLength);
    const fds = descriptors.map((what) => this.#newDescriptor(what));
    view.setBigUint64(0, BigInt(16 + 4 * fds.length), littleEndian);
    view.setInt32(8, 1, littleEndian);
    view.setInt32(12, 1, littleEndian);
    for (const [i, fd] of fds.entries()) view.setInt32(16 + 4 * i, fd, littleEndian);
    const [input, , mounts] = fds;
    if (input !== undefined) this.#files.set(input, shim);
    if (mounts !== undefined) this.#mounts.set(mounts, request.mounts ?? HERE);
    const message = request.message ?? requestBytes(request.argv ?? ["drawbridge"], request.environment ?? {});
    buffer.set(message);
    return request.failure ?? message.length;
  }

  #poll(entries: Uint8Array, milliseconds: number): number {
    if (milliseconds > 0) assert.equal(this.#alarm, 0, "no alarm is set while the server has nothing to do");
    assert.ok(++this.#polls < MOST_POLLS, "the server polls again and again without handling what is ready");
    const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
    const watched: number[] = [];
    let ready = 0;
    for (let offset = 0; offset < entries.length; offset += POLLFD_SIZE) {
      const fd = view.getInt32(offset, littleEndian);
      if (fd >= 0) {
        assert.ok(this.open.has(fd), `the server waits for ${fd}, which is closed`);
        watched.push(fd);
      }
      if (!this.#isReady(fd)) continue;
      view.setInt16(offset + 6, 1, littleEndian);
      ready++;
    }
    if (ready > 0 || milliseconds === 0) return ready;
    if (watched.every((fd) => fd === LISTENER)) this.waitedIn.push(this.#inside);
    const event = this.#events.shift();
    if (event === undefined) this.#now += milliseconds;
    else event();
    return 0;
  }

  #isReady(fd: number): boolean {
    if (fd === LISTENER) return this.#backlog.length > 0;
    const shim = this.#clients.get(fd);
    const hasSaid = shim?.isAlive === false || (shim?.request.isSilent === true && !shim.isSilent && !shim.isTaken);
    return hasSaid || this.#connections.get(fd)?.answer !== undefined;
  }
}

/** Returns a request as the shim writes it (cni/shim/program.ts). */
export function requestBytes(argv: readonly string[], environment: Readonly<Record<string, string>>): Uint8Array {
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  const strings = encoder.encode([...argv, ...variables].map((text) => `${text}\0`).join(""));
  const message = new Uint8Array(8 + strings.length);
  new DataView(message.buffer).setBigUint64(0, BigInt(argv.length), littleEndian);
  message.set(strings, 8);
  return message;
}
