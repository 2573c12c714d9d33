import { createHash } from "node:crypto";
import { type Address, addressToBytes, type Family } from "../../kernel/ip/address.ts";
import { type MacAddress, macFromBytes } from "../../kernel/ip/mac.ts";

/** The VXLAN device between nodes. All nodes of a cluster need the same VNI and port. */
export const TUNNEL = { name: "drawbridge.vx", vni: 107, port: 4789 } as const;

/** Returns the tunnel's overhead in bytes: outer IP header, UDP 8, VXLAN 8, inner Ethernet 14 (RFC 7348, section 5). */
export function tunnelOverhead(outer: Family): number {
  return outer === 4 ? 50 : 70;
}

/**
 * Returns the MAC address of a node's end of the tunnel. It is a hash of the node's own address, so that every other
 * node can compute it: locally administered and unicast.
 */
export function tunnelMac(address: Address): MacAddress {
  const digest = createHash("sha256").update(TUNNEL.name).update(addressToBytes(address)).digest();
  const [first = 0, ...rest] = digest.subarray(0, 6);
  return macFromBytes(Uint8Array.of((first & 0xfc) | 0x02, ...rest));
}
