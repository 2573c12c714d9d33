import type { Address } from "../../../kernel/ip/address.ts";
import { protocolText } from "../../../kernel/ip/protocol.ts";
import type { LoggedPacket } from "../../../kernel/nflog/packet.ts";
import type { LogOrigin } from "../compile/log_prefix.ts";
import { parseLogPrefix } from "../compile/log_prefix.ts";
import type { Traffic } from "../evaluate/flow.ts";

/** What a packet says that a profile's chain has logged. */
export interface LoggedFlow {
  readonly origin: LogOrigin;
  readonly source: Address;
  readonly destination: Address;
  /** As {@link protocolText}. */
  readonly protocol: string;
  /** As policies see it: what has no ports of theirs is to them as ICMP is. */
  readonly traffic: Traffic;
}

const PROTOCOLS = { tcp: "TCP", udp: "UDP", sctp: "SCTP" } as const;
const WITHOUT_PORTS: Traffic = Object.freeze({ protocol: "ICMP" });

/**
 * Reads a packet of the log group, which anyone on the bridge may have made up, and a rule of anyone's may have logged.
 *
 * @returns undefined for what none of our rules has logged or is no IP packet
 */
export function loggedFlow({ prefix, ip }: Pick<LoggedPacket, "prefix" | "ip">): LoggedFlow | undefined {
  const origin = parseLogPrefix(prefix);
  if (origin === undefined || ip?.protocol === undefined) return undefined;
  const { source, destination, protocol, destinationPort } = ip;
  const isNamed = typeof protocol === "string";
  const hasPort = destinationPort !== undefined && isNamed && protocol !== "icmp" && protocol !== "icmpv6";
  return {
    origin,
    source,
    destination,
    protocol: protocolText(protocol),
    traffic: hasPort ? { protocol: PROTOCOLS[protocol], port: destinationPort } : WITHOUT_PORTS,
  };
}
