import type { Family } from "../../../kernel/ip/address.ts";
import type { Selector } from "../../../kernel/nftables/model/expression.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import type { Protocol } from "../../../objects/model.ts";
import type { Direction } from "./profile.ts";

const ports = { TCP: "tcp dport", UDP: "udp dport", SCTP: "sctp dport" } as const satisfies Record<Protocol, Selector>;

/** Returns the field of a protocol's destination port. */
export function portField(protocol: Protocol): Selector {
  return ports[protocol];
}

/** Returns nft's name of a protocol. */
export function protocolWord(protocol: Protocol): string {
  return protocol.toLowerCase();
}

/** Returns the field of the peer's address. */
export function peerField(direction: Direction, family: Family): Selector {
  return direction === "egress" ? familyWords[family].destination : familyWords[family].source;
}
