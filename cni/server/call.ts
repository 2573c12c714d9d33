import { writeAll } from "../../kernel/file.ts";
import { enterNamespace } from "../../kernel/network_namespace.ts";
import type { MachineCalls } from "../../kernel/syscall/machine_calls.ts";
import { MSG_NOSIGNAL } from "../../kernel/unix_stream.ts";
import type { Wait, Work } from "../../kernel/resumable_work.ts";
import { type Answer, answer } from "../answer.ts";
import { systemFileSystem } from "../../ipam/file_system.ts";
import { executesOthers } from "../delegation/foreign_ipam.ts";
import { nameOf } from "../plugin.ts";
import type { PluginMachine } from "../host.ts";
import { readStdin } from "../standard_input.ts";
import { trackDescriptors, type TrackedCalls } from "./descriptors.ts";
import { BEGUN, DECLINED } from "./protocol.ts";
import { meansTheSameAnywhere, type Request } from "./request.ts";

/** The descriptors that came with a request. */
export interface CallDescriptors {
  /** The connection to the shim. */
  readonly client: number;
  /** The configuration; the output is appended. */
  readonly input: number;
  /** The caller's network namespace. */
  readonly network: number;
}

/** Makes the machine that a call works on from the system calls that it may use. */
export type MakeNode = (syscalls: MachineCalls) => PluginMachine;

/** One call of the plugin, from the shim's request to its exit code. */
export class Call {
  /** Calls of one container run one after the other; so do those without a container. */
  readonly containerId: string;
  readonly client: number;
  readonly request: Request;
  readonly #descriptors: CallDescriptors;
  readonly #syscalls: MachineCalls;
  readonly #tracked: TrackedCalls;
  readonly #makeNode: MakeNode;
  #work: Work<Answer> | undefined;
  #isOver = false;

  constructor(request: Request, descriptors: CallDescriptors, syscalls: MachineCalls, makeNode: MakeNode) {
    this.request = request;
    this.containerId = request.environment["CNI_CONTAINERID"] ?? "";
    this.client = descriptors.client;
    this.#descriptors = descriptors;
    this.#syscalls = syscalls;
    this.#tracked = trackDescriptors(syscalls);
    this.#makeNode = makeNode;
  }

  /** Leaves the call to the shim, which then executes the plugin. */
  decline(): void {
    this.#tell(DECLINED);
    this.#end();
  }

  /**
   * Begins the call, unless the shim was killed meanwhile: then nothing is done.
   *
   * @param othersWait whether further calls are waiting
   * @returns what it waits for, if it has not ended
   */
  begin(othersWait: () => boolean): Wait | undefined {
    const { argv0, environment } = this.request;
    const verb = environment["CNI_COMMAND"];
    const stdin = readStdin(this.#syscalls, this.#descriptors.input);
    const self = nameOf(argv0);
    const node = { files: systemFileSystem(this.#syscalls) };
    const isForShim =
      !verb ||
      // GC may take long, and writes to the caller's standard error.
      verb === "GC" ||
      !meansTheSameAnywhere(this.request) ||
      executesOthers(node, { self, environment, stdin });
    if (isForShim || (verb === "DEL" && blocksInKernel(stdin) && othersWait())) {
      this.decline();
    } else if (this.#tell(BEGUN)) {
      const call = { argv0, verb, environment, stdin: () => stdin };
      this.#work = answer(() => this.#makeNode(this.#tracked.syscalls), call);
      return this.goOn();
    } else {
      this.#end();
    }
    return undefined;
  }

  /**
   * Continues the call after a wait.
   *
   * @returns what it waits for, if it has not ended
   * @throws SyscallError when it cannot continue; the call must then be abandoned
   */
  goOn(): Wait | undefined {
    if (this.#work === undefined) return undefined;
    // Other calls, in other namespaces, may have run on this thread since.
    enterNamespace(this.#syscalls, { path: "of the caller", fd: this.#descriptors.network });
    const step = this.#work.next();
    if (step.done !== true) return step.value;
    const { output, exitCode } = step.value;
    if (output !== "") writeAll(this.#syscalls, this.#descriptors.input, encoder.encode(`${output}\n`), "the result");
    this.#tell(exitCode);
    this.#end();
    return undefined;
  }

  /**
   * Stops at the current point, like a killed plugin process: a DEL follows. Closing the connection without a byte
   * tells the shim, if it is alive, that the progress is unknown.
   */
  abandon(): void {
    this.#work?.return({ output: "", exitCode: 1 });
    this.#end();
  }

  #tell(byte: number): boolean {
    return this.#syscalls.send(this.client, Uint8Array.of(byte), MSG_NOSIGNAL) === 1;
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#work = undefined;
    this.#tracked.closeAll();
    const { client, input, network } = this.#descriptors;
    for (const fd of [client, input, network]) this.#syscalls.close(fd);
  }
}

/**
 * Whether a DEL removes the pod's link itself, in which case the thread sleeps for the kernel's grace periods, 10 to 20
 * ms: separate processes can wait in parallel. A wrong guess only costs time.
 */
function blocksInKernel(stdin: string): boolean {
  return !stdin.includes('"policyd"');
}

const encoder = new TextEncoder();
