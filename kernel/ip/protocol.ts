/** The IANA numbers of the protocols that have a name here. */
const numbers = { icmp: 1, tcp: 6, udp: 17, icmpv6: 58, sctp: 132 } as const;

/** A protocol above IP. A protocol that has a name here is always written by name, any other by its IANA number. */
export type IpProtocol = keyof typeof numbers | number;

/** The protocols whose ports Services, policies and connection tracking know. */
export const TRANSPORTS = ["tcp", "udp", "sctp"] as const satisfies readonly IpProtocol[];
export type Transport = (typeof TRANSPORTS)[number];

const TEXTS = { tcp: "TCP", udp: "UDP", sctp: "SCTP", icmp: "ICMP", icmpv6: "ICMPv6" } as const;
const named: ReadonlyMap<number, IpProtocol> = new Map<number, IpProtocol>([
  [numbers.icmp, "icmp"],
  [numbers.tcp, "tcp"],
  [numbers.udp, "udp"],
  [numbers.icmpv6, "icmpv6"],
  [numbers.sctp, "sctp"],
]);

/** Returns a protocol in readable form: `TCP`, `ICMPv6`, `protocol 47`. */
export function protocolText(protocol: IpProtocol): string {
  return typeof protocol === "number" ? `protocol ${protocol}` : TEXTS[protocol];
}

/** Returns the protocol of an IANA number, by name if it has one: 6 is "tcp". */
export function protocolFromNumber(number: number): IpProtocol {
  return named.get(number) ?? number;
}

/** Returns whether a name is that of a protocol with ports. */
export function isTransport(name: unknown): name is Transport {
  return TRANSPORTS.some((one) => one === name);
}

export function protocolNumber(protocol: IpProtocol): number {
  return typeof protocol === "number" ? protocol : numbers[protocol];
}
