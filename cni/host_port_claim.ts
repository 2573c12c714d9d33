import type { PortMapping } from "../ipam/attachment.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import type { Address, Family } from "../kernel/ip/address.ts";
import { familyOf, formatAddress } from "../kernel/ip/address.ts";

/** A port that one pod has of one family's addresses of the node: of all of them, or of one. */
export interface Claim {
  readonly family: Family;
  readonly address: Address | undefined;
  readonly mapping: PortMapping;
}

/**
 * What a mapping claims in the families a pod has: without hostIP each of them, with 0.0.0.0 or :: its own, else the
 * one address.
 */
export function claimsOf(mapping: PortMapping, families: readonly Family[]): readonly Claim[] {
  const { hostIp } = mapping;
  if (hostIp === undefined) return families.map((family) => ({ family, address: undefined, mapping }));
  const family = familyOf(hostIp);
  if (!families.includes(family)) return [];
  return [{ family, address: BigInt(hostIp) === 0n ? undefined : hostIp, mapping }];
}

/** "80/tcp of 192.0.2.1" */
function formatMapping({ hostPort, protocol, hostIp }: PortMapping): string {
  return `${hostPort}/${protocol}${hostIp === undefined ? "" : ` of ${formatAddress(hostIp)}`}`;
}

/**
 * The refusal of a mapping whose port is another pod's.
 *
 * @param index among the pod's mappings
 * @param holder whom people know the other pod as
 */
export function portTaken(mapping: PortMapping, index: number, holder: string): DrawbridgeError {
  return new DrawbridgeError(
    "ERR_HOST_PORT_TAKEN",
    `runtimeConfig.portMappings[${index}]: host port ${formatMapping(mapping)} is held by ${holder}; expected a free one: use another port or hostIP, or remove that pod`,
  );
}
