import { type MacAddress, macFromBytes, macToBytes } from "../ip/mac.ts";
import type { BpfCalls } from "../syscall/bpf_calls.ts";
import { SyscallError, type Syscalls } from "../syscall/syscalls.ts";
import { assembleBpf } from "./instruction.ts";
import { ENTRIES, portProgram, type PortTable } from "./port_program.ts";
import {
  type AttachedPrograms,
  attachProgram,
  createMap,
  describeProgram,
  detachProgram,
  loadProgram,
  openMap,
  openProgram,
  programsOf,
  readFromMap,
  setInMap,
} from "./object.ts";

type Calls = BpfCalls & Pick<Syscalls, "close">;

/** The name of the program and of its maps. The number is the version of their layout. */
export const PORT_PROGRAM = "drawbridge_1";

/** A MAC address and two bytes of padding. */
const MAC_SIZE = 8;
/** The index of a link. */
const PORT_SIZE = 4;

/** The number of attempts to attach a program when the list of programs changes in the meantime. */
const TRIES = 4;

/**
 * Makes a bridge send frames for a MAC address directly by a port, without a search, hooks and br_netfilter. The first
 * call for a bridge makes its table of ports.
 *
 * The table is a cache with one place for all MAC addresses that end alike. The last one put in has the place; for the
 * others the bridge searches as without a table. MAC addresses of pods end as their IPv4 addresses do, so those of one
 * /20 have places of their own. When a port goes, the kernel empties its place, and the bridge searches again. Only one
 * process at a time may write the table. Only the bridge holds program and table, so they live until it goes, or until
 * {@link removePortTable}.
 *
 * @param bridge the bridge's index, in the calling thread's network namespace
 * @param port the port's index
 * @returns whether the table has the port; false where the kernel has no such programs: before 6.6, without BPF, locked
 *   down
 * @throws SyscallError when there is a table and the kernel refuses to change it
 */
export function putPort(calls: Calls, bridge: number, mac: MacAddress, port: number): boolean {
  const table = openTable(calls, bridge, true);
  return (
    table !== undefined &&
    using(calls, table, ({ macs, ports }) => {
      // A frame that matched the place's former address and then reads the new port finds that its address has gone.
      const place = placeOf(mac);
      setInMap(calls, macs, place, new Uint8Array(MAC_SIZE));
      setInMap(calls, ports, place, new Uint8Array(Uint32Array.of(port).buffer));
      setInMap(calls, macs, place, placeBytes(mac));
      return true;
    })
  );
}

/** Makes a bridge search for a MAC address again, as before {@link putPort}. @throws SyscallError as {@link putPort} */
export function forgetPort(calls: Calls, bridge: number, mac: MacAddress): void {
  const table = openTable(calls, bridge, false);
  if (table === undefined) return;
  using(calls, table, ({ macs }) => {
    if (isOf(calls, macs, mac)) setInMap(calls, macs, placeOf(mac), new Uint8Array(MAC_SIZE));
  });
}

/**
 * Returns the port that a bridge's table has for a MAC address; undefined without a table or an entry.
 *
 * @throws SyscallError as {@link putPort}
 */
export function findPort(calls: Calls, bridge: number, mac: MacAddress): number | undefined {
  const table = openTable(calls, bridge, false);
  if (table === undefined) return undefined;
  return using(calls, table, ({ macs, ports }) => {
    const port = new Uint32Array(1);
    const bytes = new Uint8Array(port.buffer);
    return isOf(calls, macs, mac) && readFromMap(calls, ports, placeOf(mac), bytes) ? port[0] : undefined;
  });
}

/** Tells whether a bridge has a table of ports; false where the kernel refuses to say. */
export function hasPortTable(calls: Calls, bridge: number): boolean {
  return unlessRefused(() => atPortProgram(calls, programsOf(calls, bridge), () => true)) ?? false;
}

/** Makes a bridge search for every MAC address again, as before the first {@link putPort}. @throws SyscallError */
export function removePortTable(calls: Calls, bridge: number): void {
  atPortProgram(calls, programsOf(calls, bridge), (program) => detachProgram(calls, program, bridge));
}

function isOf(calls: Calls, macs: number, mac: MacAddress): boolean {
  const place = new Uint8Array(MAC_SIZE);
  readFromMap(calls, macs, placeOf(mac), place);
  return macFromBytes(place.subarray(0, 6)) === mac;
}

function placeOf(mac: MacAddress): number {
  return new DataView(macToBytes(mac).buffer).getUint16(4) % ENTRIES;
}

function placeBytes(mac: MacAddress): Uint8Array {
  const place = new Uint8Array(MAC_SIZE);
  place.set(macToBytes(mac));
  return place;
}

function using<T>(calls: Calls, table: PortTable, action: (table: PortTable) => T): T {
  try {
    return action(table);
  } finally {
    closeTable(calls, table);
  }
}

function closeTable(calls: Calls, { macs, ports }: PortTable): void {
  calls.close(macs);
  calls.close(ports);
}

/** Opens a bridge's table; makes one when `isMade`. @returns undefined without a table, also when making one failed */
function openTable(calls: Calls, bridge: number, isMade: boolean): PortTable | undefined {
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

function findTable(calls: Calls, programs: AttachedPrograms): PortTable | undefined {
  return atPortProgram(calls, programs, (_, [first, second]) => {
    const macs = openMap(calls, first);
    try {
      return { macs, ports: openMap(calls, second) };
    } catch (error) {
      calls.close(macs);
      throw error;
    }
  });
}

/** @param action receives the descriptor of our program among these, and its maps' ids in the program's order */
function atPortProgram<T>(
  calls: Calls,
  { ids }: AttachedPrograms,
  action: (program: number, maps: readonly [number, number]) => T,
): T | undefined {
  for (const id of ids) {
    const program = openProgram(calls, id);
    // The program has gone since the list was read.
    if (program === undefined) continue;
    try {
      const { name, maps } = describeProgram(calls, program);
      const [macs, ports] = maps;
      if (name === PORT_PROGRAM && macs !== undefined && ports !== undefined) return action(program, [macs, ports]);
    } finally {
      calls.close(program);
    }
  }
  return undefined;
}

/** @returns undefined when another program has been attached since the list was read, which may be ours */
function makeTable(calls: Calls, bridge: number, programs: AttachedPrograms): PortTable | undefined {
  const table = createTable(calls);
  let isAttached = false;
  try {
    const program = loadProgram(calls, PORT_PROGRAM, assembleBpf(portProgram(table)));
    try {
      isAttached = attachProgram(calls, program, bridge, programs);
    } finally {
      calls.close(program);
    }
  } finally {
    if (!isAttached) closeTable(calls, table);
  }
  return isAttached ? table : undefined;
}

function createTable(calls: Calls): PortTable {
  const macs = createMap(calls, PORT_PROGRAM, { type: "array", valueSize: MAC_SIZE, entries: ENTRIES });
  try {
    return { macs, ports: createMap(calls, PORT_PROGRAM, { type: "links", valueSize: PORT_SIZE, entries: ENTRIES }) };
  } catch (error) {
    calls.close(macs);
    throw error;
  }
}

/** Returns undefined when a system call fails. The reason does not matter: the bridge works without a table. */
function unlessRefused<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch (error) {
    if (error instanceof SyscallError) return undefined;
    throw error;
  }
}
