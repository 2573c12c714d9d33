import { CniError, CniErrorCode, showValue } from "../error.ts";
import type { NetworkInput } from "./network_input.ts";

/** The unsupported features. A value that is absent, false, 0 or empty does not ask for the feature. */
const unsupportedFeatures: readonly (readonly [field: string, value: (input: NetworkInput) => unknown, string])[] = [
  ["forceAddress", ({ forceAddress }) => forceAddress, "false or absent: addresses of the bridge are only added"],
  ["promiscMode", ({ promiscMode }) => promiscMode, "false or absent; hairpinMode serves the same purpose"],
  ["enabledad", ({ enabledad }) => enabledad, "false or absent: addresses are unique by allocation"],
  ["disableContainerInterface", (input) => input.disableContainerInterface, "false or absent"],
  ["portIsolation", ({ portIsolation }) => portIsolation, "false or absent"],
  ["vlan", ({ vlan }) => vlan, "0 or absent"],
  ["vlanTrunk", ({ vlanTrunk }) => nonEmpty(vlanTrunk), "absent"],
  ["ipMasqBackend", ({ ipMasqBackend }) => notNftables(ipMasqBackend), "nftables or absent"],
  ["backend", ({ backend }) => notNftables(backend), "nftables or absent"],
  ["masqAll", ({ masqAll }) => masqAll, "false or absent: a pod sees who calls its host port"],
  ["markMasqBit", ({ markMasqBit }) => markMasqBit ?? false, "absent: no mark is used"],
  ["externalSetMarkChain", (input) => input.externalSetMarkChain || undefined, "absent: no mark is used"],
  ["conditionsV4", ({ conditionsV4 }) => nonEmpty(conditionsV4), "absent: use hostIP or serviceCIDRs"],
  ["conditionsV6", ({ conditionsV6 }) => nonEmpty(conditionsV6), "absent: use hostIP or serviceCIDRs"],
];

/**
 * Refuses features of the reference plugins that would change what a pod gets, instead of ignoring them silently.
 *
 * @throws CniError 2 naming the field, its value and the supported values
 */
export function refuseUnsupported(input: NetworkInput): void {
  for (const [field, valueOf, expectation] of unsupportedFeatures) {
    const value = valueOf(input);
    if (value === undefined || value === false || value === 0) continue;
    throw unsupported(field, value, expectation);
  }
  for (const field of ["isGateway", "routed"] as const) {
    if (input[field] === false) throw unsupported(field, false, "true or absent: the bridge is the pods' gateway");
  }
  if (input.snat === false) {
    throw unsupported("snat", false, "true or absent: else no pod reaches itself by its host port");
  }
}

/** Returns the error for a feature that this version does not have. */
export function unsupported(field: string, value: unknown, expectation: string): CniError {
  return new CniError(
    CniErrorCode.UNSUPPORTED_FIELD,
    `${field}: ${showValue(value)} is not supported; expected ${expectation}`,
  );
}

/**
 * Returns a backend other than nftables. A node has one: iptables and nftables see each other's rules only by chance.
 */
function notNftables(backend: string | undefined): string | undefined {
  return backend === "" || backend === "nftables" ? undefined : backend;
}

function nonEmpty(list: readonly unknown[] | undefined): readonly unknown[] | undefined {
  return list?.length === 0 ? undefined : list;
}
