import type { BpfInstruction, BpfRegister } from "./instruction.ts";
import { Verdict } from "./object.ts";

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
export interface PortTable {
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
export function portProgram({ macs, ports }: PortTable): readonly BpfInstruction[] {
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
