import type { AttachmentRecord, PortMapping } from "./attachment.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import { type Address, familiesIn, type Family, familyOf, formatAddress } from "../kernel/ip/address.ts";

/** A port that one pod has on the node's addresses of one family: on all of them, or on one. */
export interface HostPortClaim {
  readonly family: Family;
  readonly address: Address | undefined;
  readonly mapping: PortMapping;
}

/**
 * Returns the claims of a mapping in the families of its pod: in each family without hostIP, in its own family for
 * 0.0.0.0 or ::, otherwise on the one address.
 */
export function claimsOf(mapping: PortMapping, families: readonly Family[]): readonly HostPortClaim[] {
  const { hostIp } = mapping;
  if (hostIp === undefined) return families.map((family) => ({ family, address: undefined, mapping }));
  const family = familyOf(hostIp);
  if (!families.includes(family)) return [];
  return [{ family, address: BigInt(hostIp) === 0n ? undefined : hostIp, mapping }];
}

/** Returns the claims of an attachment. */
export function claimsOfRecord({ addresses, portMappings }: AttachmentRecord): readonly HostPortClaim[] {
  const families = familiesIn(addresses.map(({ address }) => address));
  return portMappings.flatMap((mapping) => claimsOf(mapping, families));
}

/** "80/tcp of 192.0.2.1" */
function formatMapping({ hostPort, protocol, hostIp }: PortMapping): string {
  return `${hostPort}/${protocol}${hostIp === undefined ? "" : ` of ${formatAddress(hostIp)}`}`;
}

/**
 * Returns the error for a mapping whose port another pod holds.
 *
 * @param holder the other pod's name, for people
 */
export function portTaken(mapping: PortMapping, holder: string): DrawbridgeError {
  return new DrawbridgeError(
    "ERR_HOST_PORT_TAKEN",
    `runtimeConfig.portMappings: host port ${formatMapping(mapping)} is held by ${holder}; expected a free one: use another port or hostIP, or remove that pod`,
  );
}
