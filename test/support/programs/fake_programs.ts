import type { ProgramCalls } from "../../../kernel/syscall/program_calls.ts";

const MEMORY_FILE = 900_001;
const READ_END = 900_002;
const WRITE_END = 900_003;
const PID = 4242;
const POLLIN = 1;

/**
 * A foreign IPAM plugin without a process: each execution is an event at which a test can make it fail or be killed.
 */
export class FakePrograms implements ProgramCalls {
  /** The attachments that hold addresses: `container:interface`. */
  readonly held = new Set<string>();
  readonly verbs: string[] = [];
  readonly #result: string;
  readonly #happens: (label: string) => number | undefined;
  #output: Uint8Array = new Uint8Array();

  /**
   * @param happens is called immediately before and after each execution; returns the errno of an execution that is to
   * fail
   */
  constructor(result: unknown, happens: (label: string) => number | undefined) {
    this.#result = JSON.stringify(result);
    this.#happens = happens;
  }

  memoryFile(): number {
    return MEMORY_FILE;
  }

  pipe(): { readonly read: number; readonly write: number } {
    return { read: READ_END, write: WRITE_END };
  }

  spawn({ environment }: Parameters<ProgramCalls["spawn"]>[0]): number {
    const valueOf = (name: string): string =>
      environment.find((variable) => variable.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
    const verb = valueOf("CNI_COMMAND");
    const refused = this.#happens(`execute ${verb}`);
    if (refused !== undefined) return refused;
    const attachment = `${valueOf("CNI_CONTAINERID")}:${valueOf("CNI_IFNAME")}`;
    this.verbs.push(verb);
    if (verb === "ADD") this.held.add(attachment);
    else if (verb === "DEL") this.held.delete(attachment);
    this.#output = new TextEncoder().encode(verb === "ADD" ? this.#result : "");
    // A kill at this point leaves the plugin's work done, while Drawbridge does not know it.
    this.#happens(`executed ${verb}`);
    return PID;
  }

  state(): { readonly kind: "exited"; readonly code: number } {
    return { kind: "exited", code: 0 };
  }

  killGroup(): number {
    return 0;
  }

  poll(entries: Uint8Array): number {
    new DataView(entries.buffer, entries.byteOffset).setInt16(6, POLLIN, true);
    return 1;
  }

  read(_fd: number, buffer: Uint8Array): number {
    const part = this.#output.subarray(0, buffer.length);
    buffer.set(part);
    this.#output = this.#output.subarray(part.length);
    return part.length;
  }

  close(): number {
    return 0;
  }
}
