import { type MacAddress, macFromBytes, macToBytes } from "../ip/mac.ts";
import { assembleBpf } from "./instruction.ts";
import { type AttachedPrograms, createMap, openMap, programsOf, readFromMap, setInMap } from "./object.ts";
import {
  atOwnProgram,
  attachOwnProgram,
  findOrAttach,
  type OwnProgram,
  type ProgramCalls,
  unlessRefused,
} from "./own_program.ts";
import { ENTRIES, portProgram, type PortTable } from "./port_program.ts";

/** The program of {@link portProgram}; its maps have its name. */
export const PORT_PROGRAM: OwnProgram = { name: "drawbridge_1", frames: "sent", licence: "Apache-2.0", place: "last" };

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
 * removeOwnProgram (own_program.ts) detaches the program.
 *
 * @param bridge the bridge's index, in the calling thread's network namespace
 * @param port the port's index
 * @returns whether the table has the port; false where the kernel has no such programs: before 6.6, without BPF, locked
 *   down
 * @throws SyscallError when there is a table and the kernel refuses to change it
 */
export function putPort(calls: ProgramCalls, bridge: number, mac: MacAddress, port: number): boolean {
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
export function forgetPort(calls: ProgramCalls, bridge: number, mac: MacAddress): void {
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
export function findPort(calls: ProgramCalls, bridge: number, mac: MacAddress): number | undefined {
  const table = openTable(calls, bridge, false);
  if (table === undefined) return undefined;
  return using(calls, table, ({ macs, ports }) => {
    const port = new Uint32Array(1);
    const bytes = new Uint8Array(port.buffer);
    return isOf(calls, macs, mac) && readFromMap(calls, ports, placeOf(mac), bytes) ? port[0] : undefined;
  });
}

function isOf(calls: ProgramCalls, macs: number, mac: MacAddress): boolean {
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

function using<T>(calls: ProgramCalls, table: PortTable, action: (table: PortTable) => T): T {
  try {
    return action(table);
  } finally {
    closeTable(calls, table);
  }
}

function closeTable(calls: ProgramCalls, { macs, ports }: PortTable): void {
  calls.close(macs);
  calls.close(ports);
}

/** Opens a bridge's table; makes one when `isMade`. @returns undefined without a table, also when making one failed */
function openTable(calls: ProgramCalls, bridge: number, isMade: boolean): PortTable | undefined {
  const hook = { ...PORT_PROGRAM, link: bridge };
  const find = (attached: AttachedPrograms): PortTable | undefined => findTable(calls, attached);
  return unlessRefused(() =>
    isMade
      ? findOrAttach(calls, hook, find, (attached) => makeTable(calls, bridge, attached))
      : find(programsOf(calls, hook)),
  );
}

function findTable(calls: ProgramCalls, attached: AttachedPrograms): PortTable | undefined {
  return atOwnProgram(calls, PORT_PROGRAM, attached, (_, [first, second]) => {
    if (first === undefined || second === undefined) return undefined;
    const macs = openMap(calls, first);
    try {
      return { macs, ports: openMap(calls, second) };
    } catch (error) {
      calls.close(macs);
      throw error;
    }
  });
}

/** @returns undefined when another program has been attached since the list was read, which may be ours */
function makeTable(calls: ProgramCalls, bridge: number, attached: AttachedPrograms): PortTable | undefined {
  const table = createTable(calls);
  let isAttached = false;
  try {
    isAttached = attachOwnProgram(calls, PORT_PROGRAM, assembleBpf(portProgram(table)), bridge, attached);
  } finally {
    if (!isAttached) closeTable(calls, table);
  }
  return isAttached ? table : undefined;
}

function createTable(calls: ProgramCalls): PortTable {
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
