import type { BpfInstruction, BpfRegister } from "./instruction.ts";

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

/** Places of a table, of which the last bits of a MAC address say which is its. */
export const ENTRIES = 4096;

/** Descriptors of a table's two maps, which have the same places. */
export interface PortTable {
  /** Of which MAC address a place is, zero for none. */
  readonly macs: number;
  /** Its port. The kernel empties the place of one that goes. */
  readonly ports: number;
}

/**
 * What is carried out for each frame that a bridge sends: when the table has its destination, it leaves by the port named
 * there; else the bridge looks for one.
 *
 * Only frames of the node itself are taken, and those the bridge has received, which the node has routed. br_netfilter also
 * has the bridge send what a port has received and it is still to look at: a packet with a translated destination, whose
 * neighbour's header is not known yet (br_nf_pre_routing_finish_bridge). That must not pass by its hooks, policies among
 * them. Such a frame was received by the port last, and by nothing else, as are those of other links, which are left alone.
 *
 * The MAC address is compared before and after the port is read: `putPort` writes a place while frames pass.
 */
export function portProgram({ macs, ports }: PortTable): readonly BpfInstruction[] {
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
    { do: "load map", to: 1, fd: macs },
    { do: "copy", to: 2, from: 10 },
    { do: "add", to: 2, value: -4 },
    { do: "call", helper: MAP_LOOKUP_ELEM },
    { do: "jump if zero", register: 0, label: "next" },
    { do: "copy", to: 9, from: 0 },
    ...unlessMac(9),
    { do: "load map", to: 1, fd: ports },
    { do: "copy", to: 2, from: 10 },
    { do: "add", to: 2, value: -4 },
    { do: "call", helper: MAP_LOOKUP_ELEM },
    { do: "jump if zero", register: 0, label: "next" },
    { do: "load", to: 8, from: 0, at: 0, width: 4 },
    ...unlessMac(9),
    { do: "copy", to: 1, from: 8 },
    { do: "set", to: 2, value: 0 },
    { do: "call", helper: REDIRECT },
    { do: "exit" },
    { do: "label", name: "next" },
    { do: "set", to: 0, value: NEXT },
    { do: "exit" },
  ];
}

/** To the next program, unless a place is of the MAC address in r6 and r7. */
function unlessMac(place: BpfRegister): readonly BpfInstruction[] {
  return [
    { do: "load", to: 1, from: place, at: 0, width: 4 },
    { do: "jump if not equal", register: 1, to: 6, label: "next" },
    { do: "load", to: 1, from: place, at: 4, width: 2 },
    { do: "jump if not equal", register: 1, to: 7, label: "next" },
  ];
}
