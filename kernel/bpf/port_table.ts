import type { MacAddress } from "../ip/mac.ts";
import { macFromBytes, macToBytes } from "../ip/mac.ts";
import { littleEndian } from "../netlink/writer.ts";
import type { BpfCalls } from "../syscall/bpf_calls.ts";
import { SyscallError } from "../syscall/syscalls.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import type { BpfInstruction } from "./instruction.ts";
import { assembleBpf } from "./instruction.ts";
import type { AttachedPrograms } from "./object.ts";
import {
  attachProgram,
  createArray,
  describeProgram,
  detachProgram,
  loadProgram,
  openMap,
  openProgram,
  programsOf,
  readFromArray,
  setInArray,
} from "./object.ts";

type Calls = BpfCalls & Pick<Syscalls, "close">;

/** Of the program and its table; the number is that of what they look like. */
export const PORT_PROGRAM = "drawbridge_1";

/** What a table has: a MAC address, two bytes of nothing, and the index of the port behind which it is, 0 for none. */
const ENTRY_SIZE = 12;
const PORT = 8;
const ENTRIES = 4096;

/**
 * struct __sk_buff (include/uapi/linux/bpf.h): the link that received a frame last, the one that sends it, where it begins, and
 * where what can be read of it ends.
 */
const RECEIVED_BY = 36;
const SENT_BY = 40;
const FRAME = 76;
const FRAME_END = 80;
const ETHERNET_HEADER = 14;

const MAP_LOOKUP_ELEM = 1;
const REDIRECT = 23;
/** TCX_NEXT: the next program decides, and then the link. */
const NEXT = -1;

/**
 * What is carried out for each frame that a bridge sends: when the table has its destination, it leaves by the port named
 * there; else the bridge looks for one.
 *
 * Only frames of the node itself are taken, and those the bridge has received, which the node has routed. br_netfilter also
 * has the bridge send what a port has received and it is still to look at: a packet with a translated destination, whose
 * neighbour's header is not known yet (br_nf_pre_routing_finish_bridge). That must not pass by its hooks, policies among
 * them. Such a frame was received by the port last, and by nothing else, as are those of other links, which are left alone.
 */
export function portProgram(table: number): readonly BpfInstruction[] {
  return [
    { do: "load", to: 5, from: 1, at: RECEIVED_BY, width: 4 },
    { do: "jump if zero", register: 5, label: "of the node" },
    { do: "load", to: 6, from: 1, at: SENT_BY, width: 4 },
    { do: "jump if not equal", register: 5, to: 6, label: "next" },
    { do: "label", name: "of the node" },
    { do: "load", to: 2, from: 1, at: FRAME, width: 4 },
    { do: "load", to: 3, from: 1, at: FRAME_END, width: 4 },
    { do: "copy", to: 4, from: 2 },
    { do: "add", to: 4, value: ETHERNET_HEADER },
    { do: "jump if greater", register: 4, than: 3, label: "next" },
    { do: "load", to: 6, from: 2, at: 0, width: 4 },
    { do: "load", to: 7, from: 2, at: 4, width: 2 },
    { do: "copy", to: 8, from: 7 },
    { do: "from network order", to: 8, width: 2 },
    { do: "and", to: 8, value: ENTRIES - 1 },
    { do: "store", from: 8, to: 10, at: -4, width: 4 },
    { do: "load map", to: 1, fd: table },
    { do: "copy", to: 2, from: 10 },
    { do: "add", to: 2, value: -4 },
    { do: "call", helper: MAP_LOOKUP_ELEM },
    { do: "jump if zero", register: 0, label: "next" },
    { do: "load", to: 1, from: 0, at: 0, width: 4 },
    { do: "jump if not equal", register: 1, to: 6, label: "next" },
    { do: "load", to: 1, from: 0, at: 4, width: 2 },
    { do: "jump if not equal", register: 1, to: 7, label: "next" },
    { do: "load", to: 1, from: 0, at: PORT, width: 4 },
    { do: "jump if zero", register: 1, label: "next" },
    { do: "set", to: 2, value: 0 },
    { do: "call", helper: REDIRECT },
    { do: "exit" },
    { do: "label", name: "next" },
    { do: "set", to: 0, value: NEXT },
    { do: "exit" },
  ];
}

/** How often the list of programs may change under us. */
const TRIES = 4;

/**
 * Has a bridge send frames to a MAC address by a port at once, without a search, hooks and br_netfilter. The first call for
 * a bridge makes its table of ports.
 *
 * The table is a cache, with one place for all MAC addresses that end alike: the last that was put in has it, and for others
 * the bridge searches as without it. Those of pods end as their IPv4 addresses do, so those of one /20 have places of their
 * own. Nothing has to be taken out for a port that goes: frames for its MAC address are lost with and without it, and when
 * the address comes back its port is put in. Program and table live as long as the bridge, which alone holds them, or until
 * {@link removePortTable}.
 *
 * @param bridge the bridge's index, in the calling thread's network namespace
 * @param port the port's index
 * @returns whether it does; false where the kernel has no such programs: before 6.6, without BPF, or locked down
 * @throws SyscallError when there is a table, and the kernel does not let it be changed
 */
export function putPort(calls: Calls, bridge: number, mac: MacAddress, port: number): boolean {
  const table = openTable(calls, bridge, true);
  if (table === undefined) return false;
  try {
    setInArray(calls, table, indexOf(mac), entryOf(mac, port));
    return true;
  } finally {
    calls.close(table);
  }
}

/** Has a bridge search for a MAC address again. @throws SyscallError as {@link putPort} */
export function clearPort(calls: Calls, bridge: number, mac: MacAddress): void {
  if (findPort(calls, bridge, mac) !== undefined) putPort(calls, bridge, mac, 0);
}

/**
 * The port a bridge's table has for a MAC address; undefined where it has none, or there is no table.
 *
 * @throws SyscallError as {@link putPort}
 */
export function findPort(calls: Calls, bridge: number, mac: MacAddress): number | undefined {
  const table = openTable(calls, bridge, false);
  if (table === undefined) return undefined;
  try {
    const entry = new Uint8Array(ENTRY_SIZE);
    readFromArray(calls, table, indexOf(mac), entry);
    const port = new DataView(entry.buffer).getUint32(PORT, littleEndian);
    return port !== 0 && macFromBytes(entry.subarray(0, 6)) === mac ? port : undefined;
  } finally {
    calls.close(table);
  }
}

/** Whether a bridge has a table of ports; false where that cannot be seen. */
export function hasPortTable(calls: Calls, bridge: number): boolean {
  return unlessRefused(() => atPortProgram(calls, programsOf(calls, bridge), () => true)) ?? false;
}

/** Has a bridge search for every MAC address again, as before the first {@link putPort}. @throws SyscallError */
export function removePortTable(calls: Calls, bridge: number): void {
  atPortProgram(calls, programsOf(calls, bridge), (program) => detachProgram(calls, program, bridge));
}

function indexOf(mac: MacAddress): number {
  return new DataView(macToBytes(mac).buffer).getUint16(4) % ENTRIES;
}

function entryOf(mac: MacAddress, port: number): Uint8Array {
  const entry = new Uint8Array(ENTRY_SIZE);
  entry.set(macToBytes(mac));
  new DataView(entry.buffer).setUint32(PORT, port, littleEndian);
  return entry;
}

/** A descriptor of a bridge's table; undefined where there is none, and none can be or is to be made. */
function openTable(calls: Calls, bridge: number, isMade: boolean): number | undefined {
  return unlessRefused(() => {
    for (let tries = 0; tries < TRIES; tries++) {
      const programs = programsOf(calls, bridge);
      const table = findTable(calls, programs);
      if (table !== undefined || !isMade) return table;
      const made = makeTable(calls, bridge, programs);
      if (made !== undefined) return made;
    }
    return undefined;
  });
}

function findTable(calls: Calls, programs: AttachedPrograms): number | undefined {
  return atPortProgram(calls, programs, (_, table) => openMap(calls, table));
}

/** @param action gets the descriptor of the program among these that is ours, and the id of its table */
function atPortProgram<T>(
  calls: Calls,
  { ids }: AttachedPrograms,
  action: (program: number, table: number) => T,
): T | undefined {
  for (const id of ids) {
    const program = unlessRefused(() => openProgram(calls, id));
    // It has gone since.
    if (program === undefined) continue;
    try {
      const { name, maps } = describeProgram(calls, program);
      const [table] = maps;
      if (name === PORT_PROGRAM && table !== undefined) return action(program, table);
    } finally {
      calls.close(program);
    }
  }
  return undefined;
}

/** @returns undefined when somebody else has attached a program since the list was made, which may be ours */
function makeTable(calls: Calls, bridge: number, programs: AttachedPrograms): number | undefined {
  const table = createArray(calls, PORT_PROGRAM, ENTRY_SIZE, ENTRIES);
  let isAttached = false;
  try {
    const program = loadProgram(calls, PORT_PROGRAM, assembleBpf(portProgram(table)));
    try {
      isAttached = attachProgram(calls, program, bridge, programs);
    } finally {
      calls.close(program);
    }
  } finally {
    if (!isAttached) calls.close(table);
  }
  return isAttached ? table : undefined;
}

/** Which of the many reasons a kernel may have does not matter: the bridge does its work without a table. */
function unlessRefused<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch (error) {
    if (error instanceof SyscallError) return undefined;
    throw error;
  }
}
