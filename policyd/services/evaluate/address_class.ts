import type { Address } from "../../../kernel/ip/address.ts";
import { cidrContains, parseCidr } from "../../../kernel/ip/cidr.ts";

/** Kinds of addresses that no single machine of the network has. */
export type AddressClass = "loopback" | "link-local" | "multicast" | "unspecified" | "broadcast";

const CLASSES = (
  [
    ["loopback", "127.0.0.0/8", "::1/128"],
    ["link-local", "169.254.0.0/16", "fe80::/10"],
    ["multicast", "224.0.0.0/4", "ff00::/8"],
    ["unspecified", "0.0.0.0/8", "::/128"],
    ["broadcast", "255.255.255.255/32"],
  ] as const
).map(([name, ...networks]) => ({ name, networks: networks.map((network) => parseCidr(network)) }));

/** Returns the kind of a special address; undefined for all others (RFC 6890). */
export function specialClass(address: Address): AddressClass | undefined {
  return CLASSES.find(({ networks }) => networks.some((network) => cidrContains(network, address)))?.name;
}
