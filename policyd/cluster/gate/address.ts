import type { Address } from "../../../kernel/ip/address.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import { networkAddress, parseCidr } from "../../../kernel/ip/cidr.ts";
import { expectString } from "../reader.ts";

/** An IP address. @throws DrawbridgeError ERR_OBJECT for another type, ERR_ADDRESS for another text */
export function expectAddress(value: unknown, field: string): Address {
  return parseAddress(expectString(value, field), field);
}

/**
 * The network a prefix stands for. Host bits are cleared, as the API server and every engine read it.
 *
 * @throws DrawbridgeError ERR_OBJECT for another type, ERR_ADDRESS for another text
 */
export function expectNetwork(value: unknown, field: string): Cidr {
  const cidr = parseCidr(expectString(value, field), field);
  return Object.freeze({ address: networkAddress(cidr), prefixLength: cidr.prefixLength });
}
