import type { OwnProgram, ProgramMachine } from "../../../../kernel/bpf/own_program.ts";
import { attributeBytes, type Request, request } from "../../../../kernel/netlink/message.ts";
import { NetlinkError } from "../../../../kernel/netlink/error.ts";
import type { Reply } from "../../../../kernel/netlink/socket.ts";
import type { BpfCall } from "../../../../kernel/syscall/bpf_calls.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { trafficControlLayout } from "../../../../kernel/traffic_control/message.ts";
import { KIND_PROGRAM, programAttributes } from "../../../../kernel/traffic_control/program_filter.ts";

/** Commands of bpf(2). */
export const MAP_UPDATE_ELEM = 2;
export const PROG_LOAD = 5;
export const PROG_GET_FD_BY_ID = 13;
const OBJ_GET_INFO_BY_FD = 15;
/** The offset of the number of a program's maps in struct bpf_prog_info. */
const MAPS = 52;

/** A kernel that answers commands from the lists in `answers` in turn, and otherwise with a new descriptor or 0. */
export class FakeBpf {
  readonly asked: number[] = [];
  readonly descriptors = new Set<number>();
  /** The map and the value of each update. */
  readonly updates: (readonly [map: number, value: readonly number[]])[] = [];
  readonly #answers: Map<number, number[]>;
  #next = 10;

  constructor(answers: Readonly<Record<number, readonly number[]>> = {}) {
    this.#answers = new Map(Object.entries(answers).map(([command, list]) => [Number(command), [...list]]));
  }

  readonly bpf: BpfCall = (command, attributes, arrays) => {
    this.asked.push(command);
    if (command === MAP_UPDATE_ELEM) this.updates.push([attributes[0] ?? 0, [...(arrays[1]?.array ?? [])]]);
    const info = arrays[0]?.array;
    if (command === OBJ_GET_INFO_BY_FD && info !== undefined) info[MAPS] = 2;
    return this.#answers.get(command)?.shift() ?? 0;
  };

  readonly openBpf: BpfCall = (command) => {
    this.asked.push(command);
    const refusal = this.#answers.get(command)?.shift();
    if (refusal !== undefined && refusal < 0) return refusal;
    this.descriptors.add(this.#next);
    return this.#next++;
  };

  readonly close = (fd: number): number => (this.descriptors.delete(fd) ? 0 : -Errno.EBADF);
}

/** A link's classifiers, which refuse a new program with the errors of `refusals` in turn. */
export class FakeClassifiers {
  #name: string | undefined;
  readonly #refusals: (keyof typeof Errno | undefined)[];
  readonly #program: OwnProgram;
  /** The number of programs that were added, or were to be. */
  added = 0;

  /**
   * @param program the one that is added
   * @param name of the program that is at its place
   */
  constructor(program: OwnProgram, name?: string, refusals: readonly (keyof typeof Errno | undefined)[] = []) {
    this.#program = program;
    this.#name = name;
    this.#refusals = [...refusals];
  }

  readonly batch: ProgramMachine["socket"]["batch"] = (requests) => requests.map((message) => this.#answer(message));

  #answer(message: Request): Reply {
    if (message.operation.startsWith("find")) return this.#found(message);
    if (message.operation.startsWith("make a place")) return { request: message, error: undefined, messages: [] };
    this.added++;
    const refusal = this.#refusals.shift() ?? (this.#name === undefined ? undefined : "EEXIST");
    // EEXIST: another process was faster.
    if (refusal === undefined || refusal === "EEXIST") this.#name ??= this.#program.name;
    return { request: message, error: refusal && new NetlinkError("add", Errno[refusal]), messages: [] };
  }

  #found(message: Request): Reply {
    const name = this.#name;
    if (name === undefined) return { request: message, error: new NetlinkError("find", Errno.ENOENT), messages: [] };
    const type = { type: 44, flags: 0, layout: trafficControlLayout };
    const options = attributeBytes(programAttributes, { name, id: 1 });
    const { body } = request("found", type, {}, { kind: KIND_PROGRAM, options });
    return { request: message, error: undefined, messages: [{ type: 44, flags: 0, sequence: 0, body }] };
  }
}
