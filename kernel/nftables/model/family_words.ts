import type { Family } from "../../ip/address.ts";
import type { Selector } from "./expression.ts";
import type { FieldType } from "./object.ts";

/**
 * nft's words for a family: its protocol, its address type, and a packet's source, destination, next hop and, before it
 * was translated, the destination of the packets that began its connection.
 */
export const familyWords = {
  4: {
    protocol: "ipv4",
    type: "ipv4_addr",
    source: "ip saddr",
    destination: "ip daddr",
    originalDestination: "ct original ip daddr",
    nextHop: "rt ip nexthop",
  },
  6: {
    protocol: "ipv6",
    type: "ipv6_addr",
    source: "ip6 saddr",
    destination: "ip6 daddr",
    originalDestination: "ct original ip6 daddr",
    nextHop: "rt ip6 nexthop",
  },
} as const satisfies Readonly<
  Record<
    Family,
    {
      protocol: string;
      type: FieldType;
      source: Selector;
      destination: Selector;
      originalDestination: Selector;
      nextHop: Selector;
    }
  >
>;
