import type { Family } from "../../kernel/ip/address.ts";

/** The VXLAN device between nodes. All nodes of a cluster need the same VNI and port. */
export const TUNNEL = { name: "drawbridge.vx", vni: 107, port: 4789 } as const;

/** Returns the tunnel's overhead in bytes: outer IP header, UDP 8, VXLAN 8, inner Ethernet 14 (RFC 7348, section 5). */
export function tunnelOverhead(outer: Family): number {
  return outer === 4 ? 50 : 70;
}
