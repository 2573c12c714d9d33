import { PROTOCOL_OF } from "../../../objects/protocol.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import { protocolText } from "../../../kernel/ip/protocol.ts";
import type { LoggedPacket } from "../../../kernel/packets/logged_packet.ts";
import { type LogOrigin, parseLogPrefix } from "../compile/log_prefix.ts";
import type { Traffic } from "../../../objects/semantics/policies/flow.ts";

/** The content of a packet that a profile's chain has logged. */
export interface LoggedFlow {
  readonly origin: LogOrigin;
  readonly source: Address;
  readonly destination: Address;
  /** As {@link protocolText}. */
  readonly protocol: string;
  /** The packet as policies see it: without ports that they know, it is the same to them as ICMP. */
  readonly traffic: Traffic;
}

const WITHOUT_PORTS: Traffic = Object.freeze({ protocol: "ICMP" });

/**
 * Reads a packet of the log group. Anybody on the bridge may have forged it, and any program's rule may have logged it.
 *
 * @returns undefined if none of our rules logged it, or if it is not an IP packet
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
    traffic: hasPort ? { protocol: PROTOCOL_OF[protocol], port: destinationPort } : WITHOUT_PORTS,
  };
}
