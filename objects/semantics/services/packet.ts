import type { Address } from "../../../kernel/ip/address.ts";
import type { Protocol } from "../../model.ts";

/** Where a packet enters the node's network stack: from a process of the node, one of its pods or another machine. */
export type Entry = "node" | "pod" | "outside";

/** The first packet of a connection. All further ones go the same way without being evaluated again. */
export interface Packet {
  readonly entry: Entry;
  readonly protocol: Protocol;
  readonly source: Address;
  readonly sourcePort: number;
  readonly destination: Address;
  readonly destinationPort: number;
}

export interface SocketAddress {
  readonly address: Address;
  readonly port: number;
}
