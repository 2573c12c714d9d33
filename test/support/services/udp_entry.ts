import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import { type Address, familyOf, parseAddress } from "../../../kernel/ip/address.ts";

/**
 * Returns the entry of a UDP flow whose client sent to one socket and is answered by another, or by the same where
 * nothing is translated.
 */
export function udpEntry(
  asked: readonly [string, number],
  answering: readonly [string, number],
  client: Address = parseAddress(asked[0].includes(":") ? "fd00:1::1" : "198.51.100.1"),
): ConntrackEntry {
  const [destination, source] = [parseAddress(asked[0]), parseAddress(answering[0])];
  return {
    family: familyOf(destination),
    original: {
      protocol: "udp",
      source: client,
      destination,
      sourcePort: 5555,
      destinationPort: asked[1],
      icmp: undefined,
    },
    reply: {
      protocol: "udp",
      source,
      destination: client,
      sourcePort: answering[1],
      destinationPort: 5555,
      icmp: undefined,
    },
    zone: 0,
    zoneDirection: "both",
    id: 1,
    status: 0,
    mark: 0,
    labels: 0n,
    timeout: 30,
    tcpState: undefined,
  };
}
