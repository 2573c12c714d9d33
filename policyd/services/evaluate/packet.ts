import type { Address } from "../../../kernel/ip/address.ts";
import type { Protocol } from "../../cluster/model.ts";

/** Where a packet comes into the node's network stack: from a process of the node, one of its pods, another machine. */
export type Entry = "node" | "pod" | "outside";

/** The first packet of a connection. What follows it goes the same way without being judged again. */
export interface Packet {
  readonly entry: Entry;
  readonly protocol: Protocol;
  readonly source: Address;
  readonly sourcePort: number;
  readonly destination: Address;
  readonly destinationPort: number;
}

/** An address and a port of it. */
export interface SocketAddress {
  readonly address: Address;
  readonly port: number;
}
