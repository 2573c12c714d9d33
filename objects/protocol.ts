import { type IpProtocol, isTransport, type Transport } from "../kernel/ip/protocol.ts";
import type { Protocol } from "./model.ts";

/** The protocols of a Service, an endpoint and a policy; the default is TCP. */
export const PROTOCOLS = ["TCP", "UDP", "SCTP"] as const satisfies readonly Protocol[];

/** The names of these protocols in packets and rules. */
export const TRANSPORT_OF = { TCP: "tcp", UDP: "udp", SCTP: "sctp" } as const satisfies Readonly<
  Record<Protocol, Transport>
>;

/** The names that the API has for protocols of packets and rules. */
export const PROTOCOL_OF = { tcp: "TCP", udp: "UDP", sctp: "SCTP" } as const satisfies Readonly<
  Record<Transport, Protocol>
>;

/** Returns the name that the API has for a packet's protocol; undefined for one without ports that policies name. */
export function protocolOf(protocol: IpProtocol): Protocol | undefined {
  return isTransport(protocol) ? PROTOCOL_OF[protocol] : undefined;
}
