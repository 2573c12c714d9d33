import type { Address } from "../../../../kernel/ip/address.ts";
import type { IpProtocol } from "../../../../kernel/ip/protocol.ts";
import type { Connection } from "./flow_table.ts";

/** An interface as rules read it. */
export interface Device {
  readonly index: number;
  readonly name: string;
}

/** The addresses of a packet; the ports are those of TCP, UDP and SCTP, and 0 for all other protocols. */
export interface Tuple {
  readonly protocol: IpProtocol;
  readonly source: Address;
  readonly sourcePort: number;
  readonly destination: Address;
  readonly destinationPort: number;
}

/** A packet on its way through the hooks; rules change it. */
export interface WalkedPacket {
  tuple: Tuple;
  mark: number;
  /** The traffic class; 0 when absent. */
  priority?: number;
  /** Undefined before tracking, and for an untracked packet. */
  connection?: Connection | undefined;
  isUntracked?: boolean;
  direction?: "original" | "reply";
  state?: ConnectionState;
  in?: Device | undefined;
  out?: Device | undefined;
  readonly tcpFlags?: readonly string[];
  /** The type of an ICMP or ICMPv6 packet. */
  readonly icmpType?: string;
  readonly hopLimit?: number;
}

export type ConnectionState = "new" | "established" | "related" | "invalid";

/** Whether a protocol has ports where TCP has them. */
export function hasPorts(protocol: IpProtocol): boolean {
  return protocol === "tcp" || protocol === "udp" || protocol === "sctp";
}
