import ipaddr from "ipaddr.js";
import { type Address, addressToBytes } from "../../../kernel/ip/address.ts";

/** Kinds of addresses that no single machine of the network has. */
export type AddressClass = "loopback" | "link-local" | "multicast" | "unspecified" | "broadcast";

/** Our names for the ranges of ipaddr.js. All its other ranges are addresses that a machine may have. */
const CLASSES: Readonly<Partial<Record<string, AddressClass>>> = {
  loopback: "loopback",
  linkLocal: "link-local",
  multicast: "multicast",
  unspecified: "unspecified",
  broadcast: "broadcast",
};

/**
 * Returns the kind of a special address; undefined for all others (RFC 6890).
 *
 * The classification is ipaddr.js's, so that it is independent of the prefixes in kernel/ip/special.ts, from which the
 * compiler makes rules. Its parser is not used: it accepts more texts than Kubernetes does.
 */
export function specialClass(address: Address): AddressClass | undefined {
  return CLASSES[ipaddr.fromByteArray([...addressToBytes(address)]).range()];
}
