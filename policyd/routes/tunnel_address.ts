import { createHash } from "node:crypto";
import { type Address, addressToBytes } from "../../kernel/ip/address.ts";
import { type MacAddress, macFromBytes } from "../../kernel/ip/mac.ts";

/**
 * Returns the MAC address of a node's end of the tunnel. It is a hash of the node's own address, so that every other
 * node can compute it: locally administered and unicast.
 */
export function tunnelMac(address: Address): MacAddress {
  const digest = createHash("sha256").update("drawbridge.vx").update(addressToBytes(address)).digest();
  const [first = 0, ...rest] = digest.subarray(0, 6);
  return macFromBytes(Uint8Array.of((first & 0xfc) | 0x02, ...rest));
}
