import type { Family } from "../../ip/address.ts";
import type { Selector } from "./expression.ts";
import type { FieldType } from "./object.ts";

/** nft's words for a family: its protocol, its address type, and the source and destination fields of a packet. */
export const familyWords = {
  4: { protocol: "ipv4", type: "ipv4_addr", source: "ip saddr", destination: "ip daddr" },
  6: { protocol: "ipv6", type: "ipv6_addr", source: "ip6 saddr", destination: "ip6 daddr" },
} as const satisfies Readonly<
  Record<Family, { protocol: string; type: FieldType; source: Selector; destination: Selector }>
>;
