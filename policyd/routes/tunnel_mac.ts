import { createHash } from "node:crypto";
import { type Address, addressToBytes } from "../../kernel/ip/address.ts";
import { type MacAddress, macFromBytes } from "../../kernel/ip/mac.ts";
import { TUNNEL } from "./tunnel.ts";

/**
 * Returns the MAC address of a node's end of the tunnel. It is a hash of the node's own address, so that every other
 * node can compute it: locally administered and unicast.
 *
 * It is not in tunnel.ts, which the part of the daemon reads that closes pods at its start: that part must not wait for
 * Node's cryptography (DP-20).
 */
export function tunnelMac(address: Address): MacAddress {
  const digest = createHash("sha256").update(TUNNEL.name).update(addressToBytes(address)).digest();
  const [first = 0, ...rest] = digest.subarray(0, 6);
  return macFromBytes(Uint8Array.of((first & 0xfc) | 0x02, ...rest));
}
