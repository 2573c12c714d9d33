import type { Address } from "../../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import type { Endpoint } from "../../../lab/probe/endpoint.ts";

export const PROTOCOLS = ["tcp", "udp", "sctp"] as const;
export type FlowProtocol = (typeof PROTOCOLS)[number];

/** An end of a flow. */
export type FlowEnd = "client" | "server";

/** Who takes part in a flow. */
export interface FlowEnds {
  readonly name: string;
  readonly protocol: FlowProtocol;
  readonly client: LabNamespace;
  readonly clientAddress: Address;
  /** Where the client sends. */
  readonly to: Endpoint;
  readonly server: LabNamespace;
  /** Where the server listens. */
  readonly at: Endpoint;
}

/** What carries the messages of a flow: sockets of a protocol, at both ends. */
export interface Channel {
  /** The first errno that each end was told; 0 for none. */
  readonly refusals: Readonly<Record<FlowEnd, number>>;
  /** Sends one message, or what the protocol has to send before. */
  send(sender: FlowEnd): void;
  /** How much has arrived at this end since this was asked last: 0 is nothing. */
  received(receiver: FlowEnd): number;
  close(): void;
}
