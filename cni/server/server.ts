import { type FileIdentity, identityOf } from "../../kernel/file.ts";
import { isSameNamespace } from "../../kernel/network_namespace.ts";
import { Errno } from "../../kernel/syscall/errno.ts";
import type { MachineCalls } from "../../kernel/syscall/machine_calls.ts";
import { DescriptorFlag, isReady, pollEntries } from "../../kernel/syscall/poll_calls.ts";
import { controlSize, descriptorsIn, type ServerCalls } from "../../kernel/syscall/server_calls.ts";
import { SyscallError } from "../../kernel/syscall/syscalls.ts";
import type { Wait, Waiting } from "../../kernel/resumable_work.ts";
import { Call, type MakeNode } from "./call.ts";
import { F_SEAL_SEAL } from "./protocol.ts";
import { parseRequest } from "./request.ts";

/** A single string of argv or the environment has at most 128 KiB; runtimes send a few kilobytes. */
const LONGEST_REQUEST = 256 * 1024;
/** The number of descriptors: standard input, the network namespace, the mount namespace. */
const DESCRIPTORS = 3;
/**
 * A shim sends its request as soon as it has connected. Of the silent connections, the oldest makes room for others.
 */
const REQUEST_MILLISECONDS = 1000;
const MOST_SILENT = 100;
/** A call has about eight descriptors, and some machines allow a process 1024. Shims carry out further calls. */
const MOST_CALLS = 100;
/** The limit for a call that is stuck: the server's end frees all others, whose shims then execute the plugin. */
const LONGEST_STEP_SECONDS = 30;

/** The tools of the server. */
export interface ServerTools {
  readonly syscalls: MachineCalls;
  readonly calls: ServerCalls;
  readonly makeNode: MakeNode;
  readonly waiting: Pick<Waiting, "now">;
  /** The server's mount namespace: in another one, paths have another meaning. */
  readonly mounts: FileIdentity;
  /** Whether this is still the installed plugin. */
  isCurrent(): boolean;
  /** Enters a namespace in which an idle server does not keep a call's namespace alive. */
  rest(): void;
}

/** The limits after which the server ends. */
export interface ServerLimits {
  /** The time after the last call. */
  readonly idleMilliseconds: number;
  /** The number of calls, which bounds whatever a long-lived process may accumulate. */
  readonly calls: number;
}

/** A waiting call. */
interface Suspended {
  readonly call: Call;
  readonly fd: number | undefined;
  /** In the clock's time. */
  readonly until: number;
}

/**
 * Carries out calls of the plugin: many at a time while they wait for the daemon, and those of one container in the
 * order of their arrival. It has one thread and no event loop: each call has the thread, and its network namespace,
 * until it waits.
 */
export class PluginServer {
  readonly #tools: ServerTools;
  readonly #limits: ServerLimits;
  readonly #listener: number;
  #isEnding = false;
  #taken = 0;
  #lastCall: number;
  readonly #suspended = new Map<Call, Suspended>();
  /** Connections that have sent nothing, with their deadlines, in the order of arrival. */
  readonly #silent = new Map<number, number>();
  /** By container: calls that wait for the one before them, in order. */
  readonly #queues = new Map<string, Call[]>();
  readonly #message = new Uint8Array(LONGEST_REQUEST);
  readonly #control = new Uint8Array(controlSize(DESCRIPTORS));

  /** @param listener a listening socket that does not block */
  constructor(tools: ServerTools, listener: number, limits: ServerLimits) {
    this.#tools = tools;
    this.#limits = limits;
    this.#listener = listener;
    this.#lastCall = tools.waiting.now();
  }

  /** Serves until a limit, or until another plugin is installed. Shims that are not accepted execute the plugin. */
  run(): void {
    while (!this.#isEnding || this.#suspended.size > 0) this.#turn();
    for (const client of this.#silent.keys()) this.#tools.syscalls.close(client);
    this.#tools.syscalls.close(this.#listener);
  }

  #turn(): void {
    const suspended = [...this.#suspended.values()];
    const silent = [...this.#silent];
    const watched = [
      this.#listener,
      ...suspended.map(({ call }) => call.client),
      ...suspended.map(({ fd }) => fd),
      ...silent.map(([client]) => client),
    ];
    // poll(2) passes over negative descriptors.
    const entries = pollEntries(watched.map((fd) => fd ?? -1));
    if (suspended.length === 0) this.#tools.rest();
    this.#tools.calls.alarm(0);
    this.#tools.calls.poll(entries, this.#patience());
    this.#tools.calls.alarm(LONGEST_STEP_SECONDS);
    const now = this.#tools.waiting.now();
    for (const [index, { call, until }] of suspended.entries()) {
      const isClientGone = isReady(entries, 1 + index);
      const isReadable = isReady(entries, 1 + suspended.length + index);
      // A shim sends nothing after its request, so a readable connection has ended.
      if (isClientGone) this.#after(call, () => call.abandon());
      else if (isReadable || now >= until) this.#after(call, () => call.goOn());
    }
    for (const [index, [client, until]] of silent.entries()) {
      if (isReady(entries, 1 + 2 * suspended.length + index)) this.#hear(client);
      else if (now >= until) this.#hangUp(client);
    }
    if (isReady(entries, 0)) this.#accept();
    else if (this.#suspended.size === 0 && now - this.#lastCall >= this.#limits.idleMilliseconds) this.#isEnding = true;
  }

  /** Returns the milliseconds until the next deadline. */
  #patience(): number {
    const ends = [...[...this.#suspended.values()].map(({ until }) => until), ...this.#silent.values()];
    if (this.#suspended.size === 0) ends.push(this.#lastCall + this.#limits.idleMilliseconds);
    return Math.max(0, Math.ceil(Math.min(...ends) - this.#tools.waiting.now()));
  }

  /** Accepts a call whose token the server has. */
  #admit(call: Call): void {
    if (!this.#tools.isCurrent()) this.#isEnding = true;
    const queue = this.#queues.get(call.containerId);
    // Even at the server's end: a DEL must not run in parallel with an ADD of the same container.
    if (queue === undefined && (this.#isEnding || this.#suspended.size >= MOST_CALLS)) return call.decline();
    this.#taken++;
    if (queue !== undefined) queue.push(call);
    else this.#begin(call);
    if (this.#taken >= this.#limits.calls) this.#isEnding = true;
  }

  readonly #othersWait = (): boolean => {
    const entries = pollEntries([this.#listener]);
    return this.#tools.calls.poll(entries, 0) > 0;
  };

  #begin(call: Call): void {
    this.#queues.set(call.containerId, []);
    this.#after(call, () => call.begin(this.#othersWait));
  }

  /** Runs a step of a call, and after the call's end begins the next one of its container. */
  #after(call: Call, step: () => Wait | undefined | void): void {
    let wait: Wait | undefined;
    this.#tools.calls.alarm(LONGEST_STEP_SECONDS);
    try {
      wait = step() ?? undefined;
    } catch {
      // The call cannot continue, or its output cannot be written; the end of the connection tells its shim.
      call.abandon();
    }
    const now = this.#tools.waiting.now();
    if (wait !== undefined) {
      this.#suspended.set(call, { call, fd: wait.fd, until: now + wait.milliseconds });
      return;
    }
    this.#suspended.delete(call);
    // Polls never end, and must not keep a server alive.
    if (call.request.environment["CNI_COMMAND"] !== "STATUS") this.#lastCall = now;
    const next = this.#queues.get(call.containerId)?.shift();
    if (next === undefined) this.#queues.delete(call.containerId);
    else this.#after(next, () => next.begin(this.#othersWait));
  }

  #accept(): void {
    const client = this.#tools.calls.accept(this.#listener, DescriptorFlag.CLOEXEC);
    // Without free descriptors the server cannot work: the calls that end free some, and the next server has its own.
    if (client === -Errno.EMFILE) this.#isEnding = true;
    if (client < 0) return;
    this.#hear(client);
    const [first] = this.#silent.keys();
    if (first !== undefined && this.#silent.size > MOST_SILENT) this.#hangUp(first);
  }

  /**
   * Receives a request, and takes its call unless the shim is in another mount namespace or has taken the call back.
   */
  #hear(client: number): void {
    const { syscalls, calls, makeNode } = this.#tools;
    const length = calls.receiveMessage(client, this.#message, this.#control);
    if (length === -Errno.EAGAIN) {
      if (!this.#silent.has(client)) this.#silent.set(client, this.#tools.waiting.now() + REQUEST_MILLISECONDS);
      return;
    }
    this.#silent.delete(client);
    const descriptors = descriptorsIn(this.#control);
    const [input, network, mounts] = descriptors;
    const request = length < 0 ? undefined : parseRequest(this.#message.subarray(0, length));
    const isComplete = input !== undefined && network !== undefined && mounts !== undefined;
    // The control buffer's end is aligned, so it has room for one descriptor more.
    const isNone = request === undefined || !isComplete || descriptors.length > DESCRIPTORS;
    // Sealing fails if the shim has sealed the file already.
    if (isNone || calls.addSeals(input, F_SEAL_SEAL) < 0) {
      for (const fd of [client, ...descriptors]) syscalls.close(fd);
      return;
    }
    const call = new Call(request, { client, input, network }, syscalls, makeNode);
    const isHere = this.#isOurs(mounts);
    syscalls.close(mounts);
    if (isHere) this.#admit(call);
    else call.decline();
  }

  #hangUp(client: number): void {
    this.#silent.delete(client);
    this.#tools.syscalls.close(client);
  }

  #isOurs(mounts: number): boolean {
    try {
      const theirs = identityOf(this.#tools.syscalls, mounts, "the caller's mount namespace");
      return isSameNamespace(theirs, this.#tools.mounts);
    } catch (error) {
      if (error instanceof SyscallError) return false;
      throw error;
    }
  }
}
