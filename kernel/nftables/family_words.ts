import type { Family } from "../ip/address.ts";
import type { Selector } from "./expression.ts";
import type { FieldType } from "./object.ts";

/** What nft calls things of a family: its protocol, the type of its addresses, the fields of a packet's two. */
export const familyWords = {
  4: { protocol: "ipv4", type: "ipv4_addr", source: "ip saddr", destination: "ip daddr" },
  6: { protocol: "ipv6", type: "ipv6_addr", source: "ip6 saddr", destination: "ip6 daddr" },
} as const satisfies Readonly<
  Record<Family, { protocol: string; type: FieldType; source: Selector; destination: Selector }>
>;
