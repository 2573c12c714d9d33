import type { Family } from "../../../kernel/ip/address.ts";
import type { Selector } from "../../../kernel/nftables/expression.ts";
import type { FieldType } from "../../../kernel/nftables/object.ts";
import type { Protocol } from "../../cluster/model.ts";
import type { Direction } from "./profile.ts";

export const FAMILIES: readonly Family[] = [4, 6];

/** What nft calls things of a family. */
export const words = {
  4: { network: "ipv4", type: "ipv4_addr", source: "ip saddr", destination: "ip daddr" },
  6: { network: "ipv6", type: "ipv6_addr", source: "ip6 saddr", destination: "ip6 daddr" },
} as const satisfies Readonly<
  Record<Family, { network: string; type: FieldType; source: Selector; destination: Selector }>
>;

const ports = { TCP: "tcp dport", UDP: "udp dport", SCTP: "sctp dport" } as const satisfies Record<Protocol, Selector>;

/** The field of a protocol's destination port. */
export function portField(protocol: Protocol): Selector {
  return ports[protocol];
}

/** A protocol as nft calls it. */
export function protocolWord(protocol: Protocol): string {
  return protocol.toLowerCase();
}

/** The field of the address at the other end. */
export function peerField(direction: Direction, family: Family): Selector {
  return direction === "egress" ? words[family].destination : words[family].source;
}
