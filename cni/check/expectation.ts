import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { type Address, parseAddress } from "../../kernel/ip/address.ts";
import { type Cidr, cidrFamily, formatCidr, parseCidr } from "../../kernel/ip/cidr.ts";
import { CniError, CniErrorCode } from "../error.ts";
import { decode } from "../json.ts";
import type { ResultRoute } from "../result.ts";

/** The part of a configuration that CHECK reads: the port's flags, and the routes the plugin makes. */
export interface CheckedConfiguration {
  readonly hairpinMode: boolean;
  readonly isDefaultGateway: boolean;
  readonly ipam: { readonly routes: readonly ResultRoute[] };
}

/** A route that the plugin made in the pod and that no later plugin of the chain removed from the result. */
export interface ExpectedRoute {
  readonly destination: Cidr;
  readonly gateway: Address;
  readonly table: number | undefined;
  readonly priority: number | undefined;
  /**
   * Whether it may be by another interface: a pod that already had such a route has kept it (`PodRoute.isImplicit`).
   */
  readonly mayBeOthers: boolean;
}

/** The state that an attachment must have in the kernel. */
export interface Expectation {
  readonly bridge: string;
  /** Addresses of the bridge to which the pod sends. */
  readonly gateways: readonly Address[];
  readonly hostInterface: string;
  readonly hostMac: string;
  readonly hairpin: boolean;
  readonly ifname: string;
  readonly podMac: string;
  readonly addresses: readonly Cidr[];
  readonly routes: readonly ExpectedRoute[];
}

const resultShape = {
  interfaces: [{ name: "string", mac: "string", sandbox: "string" }],
  ips: [{ address: "string", gateway: "string" }],
  routes: [{ dst: "string", gw: "string", table: "number", priority: "number" }],
} as const;

/**
 * Decides what CHECK expects: what the plugin made, as far as the result of the whole chain still names it.
 *
 * The record names addresses, links and MAC addresses. `prevResult`, the chain's result, counts in three ways. A
 * different MAC address was set by a later plugin (tuning) and becomes the expected one. An address or a route that it
 * does not name was removed by a later plugin. An address, a route or an interface that only the result names belongs
 * to a later plugin, whose own CHECK covers it (B16).
 *
 * @throws CniError 7 for a `prevResult` that is missing, of other types, or of another attachment; DrawbridgeError
 *   ERR_ADDRESS for a malformed address in it
 */
export function expectationOf(
  configuration: CheckedConfiguration,
  record: AttachmentRecord,
  prevResult: unknown,
): Expectation {
  if (prevResult === undefined) throw notTheResult("missing", "the result of this attachment's ADD");
  const result = decode(prevResult, resultShape, "prevResult");
  const ips = (result.ips ?? []).map(({ address = "", gateway = "" }, index) => ({
    address: parseCidr(address, `prevResult.ips[${index}].address`).address,
    gateway: gateway === "" ? undefined : parseAddress(gateway, `prevResult.ips[${index}].gateway`),
  }));
  const own = ips.filter((ip) => record.addresses.some(({ address }) => address === ip.address));
  const addresses = record.addresses.filter(({ address }) => own.some((ip) => ip.address === address));
  if (addresses.length === 0) {
    const held = record.addresses.map(formatCidr).join(", ");
    throw notTheResult(
      `has none of this attachment's addresses (${held})`,
      "the result of this attachment's last ADD: call DEL and ADD, or CHECK with the newer result",
    );
  }
  const gateways = [...new Set(own.flatMap(({ gateway }) => (gateway === undefined ? [] : [gateway])))];
  const macOf = (name: string, isInPod: boolean, otherwise: string): string => {
    const named = result.interfaces?.find((one) => one.name === name && Boolean(one.sandbox) === isInPod);
    return (named?.mac || otherwise).toLowerCase();
  };
  return Object.freeze({
    bridge: record.bridge,
    gateways,
    hostInterface: record.hostInterface,
    hostMac: macOf(record.hostInterface, false, record.hostMac),
    hairpin: configuration.hairpinMode,
    ifname: record.ifname,
    podMac: macOf(record.ifname, true, record.mac),
    addresses,
    routes: ownRoutes(configuration, gateways, result.routes ?? []),
  });
}

/** Returns the routes of a result that the plugin made: the configured ones, and default routes by the bridge. */
function ownRoutes(
  configuration: CheckedConfiguration,
  gateways: readonly Address[],
  routes: readonly {
    readonly dst?: string;
    readonly gw?: string;
    readonly table?: number;
    readonly priority?: number;
  }[],
): readonly ExpectedRoute[] {
  const textOf = (destination: Cidr, gateway: Address | undefined): string =>
    `${formatCidr(destination)} ${String(gateway)}`;
  const configured = new Set(configuration.ipam.routes.map((one) => textOf(one.destination, one.gateway)));
  return routes.flatMap(({ dst = "", gw, table, priority }, index): readonly ExpectedRoute[] => {
    if (!gw) return [];
    const destination = parseCidr(dst, `prevResult.routes[${index}].dst`);
    const gateway = parseAddress(gw, `prevResult.routes[${index}].gw`);
    const isByBridge = gateways.includes(gateway);
    const isConfigured =
      configured.has(textOf(destination, gateway)) || (isByBridge && configured.has(textOf(destination, undefined)));
    const isDefault = configuration.isDefaultGateway && isByBridge && destination.prefixLength === 0;
    if (!isConfigured && !isDefault) return [];
    return [{ destination, gateway, table, priority, mayBeOthers: !isConfigured }];
  });
}

/** Returns the family of a route's destination, which says which routes are listed. */
export function familyOfRoute({ destination }: ExpectedRoute): 4 | 6 {
  return cidrFamily(destination);
}

function notTheResult(found: string, expected: string): CniError {
  return new CniError(CniErrorCode.INVALID_CONFIGURATION, `prevResult: ${found}; expected ${expected}`);
}
