import { littleEndian } from "../byte_order.ts";
import type { AttributeArray, BpfCalls } from "../syscall/bpf_calls.ts";
import { Errno } from "../syscall/errno.ts";
import { check } from "../syscall/syscalls.ts";
import { viewOf } from "../byte_writer.ts";

const MAP_CREATE = 0;
const MAP_LOOKUP_ELEM = 1;
const MAP_UPDATE_ELEM = 2;
const PROG_LOAD = 5;
const PROG_GET_FD_BY_ID = 13;
const MAP_GET_FD_BY_ID = 14;
const OBJ_GET_INFO_BY_FD = 15;

/**
 * BPF_MAP_TYPE_ARRAY and BPF_MAP_TYPE_DEVMAP, whose values are link indices. The kernel removes the index of a link
 * that goes, so that no value leads to a later link with that index (dev_map_notification of kernel/bpf/devmap.c).
 */
const MAP_TYPES = { array: 2, links: 14 } as const;
const PROG_TYPE_SCHED_CLS = 3;

/**
 * Verdicts on a frame, TC_ACT_UNSPEC and TC_ACT_SHOT: the next program decides, or the link if there is none; or the
 * frame is dropped.
 */
export const Verdict = { NEXT: -1, DROP: 2 } as const;

const MOST_MAPS = 4;
/** The size of struct bpf_prog_info up to and including the ids of its maps. */
const INFO_SIZE = 64;

type Field = readonly [offset: number, value: number];

const encoder = new TextEncoder();

/** The shape of a map from the numbers below `entries` to values. */
export interface MapShape {
  readonly type: keyof typeof MAP_TYPES;
  /** In bytes. */
  readonly valueSize: number;
  readonly entries: number;
}

/** Creates a map with all values zero (array) or absent (links). @returns its descriptor @throws SyscallError */
export function createMap(calls: BpfCalls, name: string, { type, valueSize, entries }: MapShape): number {
  const attributes = attributesOf(48, [
    [0, MAP_TYPES[type]],
    [4, 4],
    [8, valueSize],
    [12, entries],
  ]);
  attributes.set(nameBytes(name), 28);
  return check(calls.openBpf(MAP_CREATE, attributes, []), `bpf: create the map ${name}`);
}

/** Sets a value of a map. @throws SyscallError */
export function setInMap(calls: BpfCalls, map: number, index: number, value: Uint8Array): void {
  check(calls.bpf(MAP_UPDATE_ELEM, ...element(map, index, value)), `bpf: set element ${index}`);
}

/** Reads a value of a map into `value`. @throws SyscallError */
export function readFromMap(calls: BpfCalls, map: number, index: number, value: Uint8Array): void {
  check(calls.bpf(MAP_LOOKUP_ELEM, ...element(map, index, value)), `bpf: read element ${index}`);
}

function element(
  map: number,
  index: number,
  value: Uint8Array,
): [attributes: Uint8Array, arrays: readonly AttributeArray[]] {
  const key = attributesOf(4, [[0, index]]);
  return [
    attributesOf(32, [[0, map]]),
    [
      { offset: 8, array: key },
      { offset: 16, array: value },
    ],
  ];
}

/** The licence of a program: the kernel offers some helpers only to programs under the GPL (license_is_gpl_compatible). */
export type Licence = "Apache-2.0" | "Dual MIT/GPL";

/**
 * The number of attempts to load a program. The kernel gives up the verification with EAGAIN when a signal is pending
 * (bpf_check and do_check of kernel/bpf/verifier.c), which is delivered before the next attempt.
 */
const LOADS = 5;

/** Loads a program for frames. The kernel verifies that it ends and reads only what it may. @throws SyscallError */
export function loadProgram(calls: BpfCalls, name: string, licence: Licence, instructions: Uint8Array): number {
  const attributes = attributesOf(72, [
    [0, PROG_TYPE_SCHED_CLS],
    [4, instructions.length / 8],
  ]);
  attributes.set(nameBytes(name), 48);
  const arrays = [
    { offset: 8, array: instructions },
    { offset: 16, array: encoder.encode(`${licence}\0`) },
  ];
  let result = -Errno.EAGAIN;
  for (let load = 0; load < LOADS && result === -Errno.EAGAIN; load++) {
    result = calls.openBpf(PROG_LOAD, attributes, arrays);
  }
  return check(result, `bpf: load the program ${name}`);
}

/** Opens a program. @returns undefined when it has gone @throws SyscallError EPERM without CAP_SYS_ADMIN */
export function openProgram(calls: BpfCalls, id: number): number | undefined {
  const result = calls.openBpf(PROG_GET_FD_BY_ID, attributesOf(16, [[0, id]]), []);
  return result === -Errno.ENOENT ? undefined : check(result, `bpf: open program ${id}`);
}

/** Opens a map. @returns its descriptor @throws SyscallError ENOENT when it has gone */
export function openMap(calls: BpfCalls, id: number): number {
  return check(calls.openBpf(MAP_GET_FD_BY_ID, attributesOf(16, [[0, id]]), []), `bpf: open map ${id}`);
}

/** Returns the ids of a program's maps. @throws SyscallError */
export function mapsOf(calls: BpfCalls, program: number): readonly number[] {
  const info = attributesOf(INFO_SIZE, [[52, MOST_MAPS]]);
  const ids = new Uint8Array(MOST_MAPS * 4);
  const attributes = attributesOf(16, [
    [0, program],
    [4, INFO_SIZE],
  ]);
  const arrays = [{ offset: 8, array: info, arrays: [{ offset: 56, array: ids }] }];
  check(calls.bpf(OBJ_GET_INFO_BY_FD, attributes, arrays), `bpf: describe program ${program}`);
  const count = Math.min(viewOf(info).getUint32(52, littleEndian), MOST_MAPS);
  return Array.from({ length: count }, (_, index) => viewOf(ids).getUint32(index * 4, littleEndian));
}

function attributesOf(size: number, fields: readonly Field[]): Uint8Array {
  const attributes = new Uint8Array(size);
  const view = viewOf(attributes);
  for (const [offset, value] of fields) view.setUint32(offset, value, littleEndian);
  return attributes;
}

/** @throws RangeError for a name that the kernel would truncate or refuse */
function nameBytes(name: string): Uint8Array {
  if (!/^[a-zA-Z0-9_.]{1,15}$/.test(name))
    throw new RangeError(`${JSON.stringify(name)} is not a valid BPF name; expected 1 to 15 letters, digits, _ or .`);
  return encoder.encode(name);
}
