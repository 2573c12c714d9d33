import { type MacAddress, macFromBytes, macToBytes } from "../ip/mac.ts";
import { assembleBpf, type BpfInstruction, type BpfRegister } from "./instruction.ts";
import { createMap, mapsOf, openMap, openProgram, readFromMap, setInMap, Verdict } from "./object.ts";
import {
  attachOwnProgram,
  findOwnProgram,
  OWN_HANDLE,
  type OwnProgram,
  type ProgramMachine,
  unlessRefused,
} from "./own_program.ts";

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
    const [place, value] = [placeOf(mac), new Uint8Array(MAC_SIZE)];
    readFromMap(calls, macs, place, value);
    if (macFromBytes(value.subarray(0, 6)) === mac) setInMap(calls, macs, place, new Uint8Array(MAC_SIZE));
  });
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

/**
 * Offsets in struct __sk_buff (include/uapi/linux/bpf.h): the link that last received the frame, the link that sends
 * it, the frame's beginning, and the end of its readable part.
 */
const RECEIVED_BY = 36;
const SENT_BY = 40;
const FRAME = 76;
const FRAME_END = 80;
const ETHERNET_HEADER = 14;

const MAP_LOOKUP_ELEM = 1;
const REDIRECT = 23;

/** The number of places in a table. The last bits of a MAC address select its place. */
export const ENTRIES = 4096;

/** The descriptors of a table's two maps, which have the same places. */
interface PortTable {
  /** The MAC address that each place belongs to; zero for none. */
  readonly macs: number;
  /** The port of each place. The kernel empties the place when the port goes. */
  readonly ports: number;
}

/**
 * Returns the program for each frame that a bridge sends. When the table has the frame's destination, the frame leaves
 * by the port named there; otherwise the bridge looks for the port.
 *
 * It takes only frames of the node itself, and frames that the bridge received and the node routed. With br_netfilter
 * the bridge also sends frames that a port received and that have yet to pass the bridge's hooks: packets with a
 * translated destination whose neighbour's header is unknown (br_nf_pre_routing_finish_bridge). These must not bypass
 * the hooks, which enforce policies among other things. The last receiver of such a frame is the port, so it is not
 * taken, like frames from other links.
 *
 * It compares the MAC address before and after it reads the port, because `putPort` writes a place while frames pass.
 */
function portProgram({ macs, ports }: PortTable): readonly BpfInstruction[] {
  return [
    { do: "load", to: 5, from: 1, at: RECEIVED_BY, width: 4 },
    { do: "jump if equal", register: 5, value: 0, label: "of the node" },
    { do: "load", to: 6, from: 1, at: SENT_BY, width: 4 },
    { do: "jump if registers differ", registers: [5, 6], label: "next" },
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
    { do: "load map", to: 1, fd: macs },
    { do: "copy", to: 2, from: 10 },
    { do: "add", to: 2, value: -4 },
    { do: "call", helper: MAP_LOOKUP_ELEM },
    { do: "jump if equal", register: 0, value: 0, label: "next" },
    { do: "copy", to: 9, from: 0 },
    ...unlessMac(9),
    { do: "load map", to: 1, fd: ports },
    { do: "copy", to: 2, from: 10 },
    { do: "add", to: 2, value: -4 },
    { do: "call", helper: MAP_LOOKUP_ELEM },
    { do: "jump if equal", register: 0, value: 0, label: "next" },
    { do: "load", to: 8, from: 0, at: 0, width: 4 },
    ...unlessMac(9),
    { do: "copy", to: 1, from: 8 },
    { do: "set", to: 2, value: 0 },
    { do: "call", helper: REDIRECT },
    { do: "exit" },
    { do: "label", name: "next" },
    { do: "set", to: 0, value: Verdict.NEXT },
    { do: "exit" },
  ];
}

/** Returns code that leaves the frame to the next program unless the place holds the MAC address in r6 and r7. */
function unlessMac(place: BpfRegister): readonly BpfInstruction[] {
  return [
    { do: "load", to: 1, from: place, at: 0, width: 4 },
    { do: "jump if registers differ", registers: [1, 6], label: "next" },
    { do: "load", to: 1, from: place, at: 4, width: 2 },
    { do: "jump if registers differ", registers: [1, 7], label: "next" },
  ];
}
