import type { Address } from "../../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import type { Endpoint } from "../../../lab/probe/endpoint.ts";

export const PROTOCOLS = ["tcp", "udp", "sctp"] as const;
export type FlowProtocol = (typeof PROTOCOLS)[number];

/** An end of a flow. */
export type FlowEnd = "client" | "server";

/** The parties of a flow. */
export interface FlowEnds {
  readonly name: string;
  readonly protocol: FlowProtocol;
  readonly client: LabNamespace;
  readonly clientAddress: Address;
  /** The destination of the client's packets. */
  readonly to: Endpoint;
  readonly server: LabNamespace;
  /** The address and port where the server listens. */
  readonly at: Endpoint;
}

/** The carrier of a flow's messages: sockets of a protocol, at both ends. */
export interface Channel {
  /** The first errno that each end received; 0 for none. */
  readonly refusals: Readonly<Record<FlowEnd, number>>;
  /** Sends one message, or the packets that the protocol needs before it. */
  send(sender: FlowEnd): void;
  /** Returns how many messages have arrived at this end since the last call; 0 for none. */
  received(receiver: FlowEnd): number;
  close(): void;
}
