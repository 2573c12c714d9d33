import { type MacAddress, macFromBytes, macToBytes } from "../ip/mac.ts";
import { assembleBpf } from "./instruction.ts";
import { createMap, mapsOf, openMap, openProgram, readFromMap, setInMap } from "./object.ts";
import {
  attachOwnProgram,
  findOwnProgram,
  OWN_HANDLE,
  type OwnProgram,
  type ProgramMachine,
  unlessRefused,
} from "./own_program.ts";
import { ENTRIES, portProgram, type PortTable } from "./port_program.ts";

/** The program of {@link portProgram}; its maps have its name. */
export const PORT_PROGRAM: OwnProgram = {
  name: "drawbridge_1",
  licence: "Apache-2.0",
  // After filters of other programs, which the kernel numbers downwards from 49152 when they choose no priority.
  place: { frames: "sent", priority: 0xd000, handle: OWN_HANDLE },
};

type Calls = ProgramMachine["syscalls"];

/** A MAC address and two bytes of padding. */
const MAC_SIZE = 8;
/** The index of a link. */
const PORT_SIZE = 4;

/**
 * Makes a bridge send frames for a MAC address directly by a port, without a search, hooks and br_netfilter. The first
 * call for a bridge makes its table of ports.
 *
 * The table is a cache with one place for all MAC addresses that end alike. The last one put in has the place; for the
 * others the bridge searches as without a table. MAC addresses of pods end as their IPv4 addresses do, so those of one
 * /20 have places of their own. When a port goes, the kernel empties its place, and the bridge searches again. Only one
 * process at a time may write the table. Only the bridge holds program and table, so they live until it goes, or until
 * removeOwnProgram (own_program.ts) removes the program.
 *
 * @param bridge the bridge's index
 * @param port the port's index, in the calling thread's network namespace
 * @returns whether the table has the port; false where the kernel has no such programs: without BPF or NET_CLS_BPF,
 *   locked down
 * @throws SyscallError when there is a table and the kernel refuses to change it
 */
export function putPort(machine: ProgramMachine, bridge: number, mac: MacAddress, port: number): boolean {
  const calls = machine.syscalls;
  const table = unlessRefused(
    () => openTable(machine, bridge) ?? makeTable(machine, bridge) ?? openTable(machine, bridge),
  );
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
export function forgetPort(machine: ProgramMachine, bridge: number, mac: MacAddress): void {
  const calls = machine.syscalls;
  const table = unlessRefused(() => openTable(machine, bridge));
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
export function findPort(machine: ProgramMachine, bridge: number, mac: MacAddress): number | undefined {
  const calls = machine.syscalls;
  const table = unlessRefused(() => openTable(machine, bridge));
  if (table === undefined) return undefined;
  return using(calls, table, ({ macs, ports }) => {
    const port = new Uint32Array(1);
    const bytes = new Uint8Array(port.buffer);
    return isOf(calls, macs, mac) && readFromMap(calls, ports, placeOf(mac), bytes) ? port[0] : undefined;
  });
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

/** Opens a bridge's table; undefined when it has none. @throws SyscallError, NetlinkError */
function openTable(machine: ProgramMachine, bridge: number): PortTable | undefined {
  const calls = machine.syscalls;
  const found = findOwnProgram(machine, PORT_PROGRAM, bridge);
  const program = found && openProgram(calls, found.id);
  // The program may have gone since the bridge's filters were read.
  if (program === undefined) return undefined;
  try {
    const [first, second] = mapsOf(calls, program);
    if (first === undefined || second === undefined) return undefined;
    const macs = openMap(calls, first);
    try {
      return { macs, ports: openMap(calls, second) };
    } catch (error) {
      calls.close(macs);
      throw error;
    }
  } finally {
    calls.close(program);
  }
}

/** Makes a bridge's table; undefined when another process was faster. @throws SyscallError, NetlinkError */
function makeTable(machine: ProgramMachine, bridge: number): PortTable | undefined {
  const table = createTable(machine.syscalls);
  let isAttached = false;
  try {
    isAttached = attachOwnProgram(machine, PORT_PROGRAM, assembleBpf(portProgram(table)), bridge);
  } finally {
    if (!isAttached) closeTable(machine.syscalls, table);
  }
  return isAttached ? table : undefined;
}

function createTable(calls: Calls): PortTable {
  const macs = createMap(calls, PORT_PROGRAM.name, { type: "array", valueSize: MAC_SIZE, entries: ENTRIES });
  try {
    return {
      macs,
      ports: createMap(calls, PORT_PROGRAM.name, { type: "links", valueSize: PORT_SIZE, entries: ENTRIES }),
    };
  } catch (error) {
    calls.close(macs);
    throw error;
  }
}
