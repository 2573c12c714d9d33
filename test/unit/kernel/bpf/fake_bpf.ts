import type { BpfCall } from "../../../../kernel/syscall/bpf_calls.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";

/** Commands of bpf(2). */
export const MAP_UPDATE_ELEM = 2;
export const PROG_LOAD = 5;
export const PROG_ATTACH = 8;
export const PROG_GET_FD_BY_ID = 13;
export const PROG_QUERY = 16;
/** The index of query.count in union bpf_attr. */
const COUNT = 24;

/** A kernel that answers commands from the lists in `answers` in turn, and otherwise with a new descriptor or 0. */
export class FakeBpf {
  readonly asked: number[] = [];
  readonly descriptors = new Set<number>();
  /** The map and the value of each update. */
  readonly updates: (readonly [map: number, value: readonly number[]])[] = [];
  readonly #answers: Map<number, number[]>;
  #next = 10;

  readonly #attached: number;

  /** @param attached the number of programs at the link */
  constructor(answers: Readonly<Record<number, readonly number[]>>, attached = 0) {
    this.#attached = attached;
    this.#answers = new Map(Object.entries(answers).map(([command, list]) => [Number(command), [...list]]));
  }

  readonly bpf: BpfCall = (command, attributes, arrays) => {
    this.asked.push(command);
    if (command === MAP_UPDATE_ELEM) this.updates.push([attributes[0] ?? 0, [...(arrays[1]?.array ?? [])]]);
    // The kernel replaces the room for programs by their number.
    if (command === PROG_QUERY) attributes[COUNT] = this.#attached;
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
