import { type Address, formatAddress, FAMILIES } from "../kernel/ip/address.ts";
import { type Cidr, cidrFamily, formatCidr, networkAddress } from "../kernel/ip/cidr.ts";
import { CniError, CniErrorCode } from "./error.ts";
import type { CniVersion } from "./version.ts";

/** The result of ADD, before it is printed in the form of a version of the specification. */
export interface AddResult {
  readonly interfaces: readonly ResultInterface[];
  readonly ips: readonly ResultAddress[];
  readonly routes: readonly ResultRoute[];
  readonly dns: Dns;
}

export interface ResultInterface {
  readonly name: string;
  readonly mac: string;
  /** Bytes; printed from version 1.1.0 on. */
  readonly mtu?: number;
  /** The path of the interface's namespace; absent for the node's own. */
  readonly sandbox?: string;
}

export interface ResultAddress {
  /** The position in `interfaces`; absent in the result of an IPAM plugin. */
  readonly interface?: number;
  readonly address: Cidr;
  readonly gateway?: Address;
}

/** Options of a route, from version 1.1.0 of the specification on. */
export interface RouteOptions {
  /** Bytes of the largest packet on this route. */
  readonly mtu?: number;
  /** Bytes: the maximum segment size that a TCP connection announces. */
  readonly advmss?: number;
  /** The kernel uses the route with the lowest number of those to one destination. */
  readonly priority?: number;
  /** The routing table; the main one when absent. */
  readonly table?: number;
}

export interface ResultRoute extends RouteOptions {
  readonly destination: Cidr;
  readonly gateway?: Address;
}

/** DNS settings passed through to the runtime. */
export interface Dns {
  readonly nameservers?: readonly string[] | undefined;
  readonly domain?: string | undefined;
  readonly search?: readonly string[] | undefined;
  readonly options?: readonly string[] | undefined;
}

/**
 * Returns the result in the shape of a specification version, ready for JSON: absent members are omitted, index 0 is
 * not.
 *
 * @throws CniError 2 when an old version cannot express the result
 */
export function resultObject(result: AddResult, version: CniVersion): object {
  switch (version) {
    case "0.1.0":
    case "0.2.0":
      return oldestShape(result, version);
    case "0.3.0":
    case "0.3.1":
    case "0.4.0":
      return {
        cniVersion: version,
        ...withInterfaces(result, false),
        ips: result.ips.map((ip) => ({ version: String(cidrFamily(ip.address)), ...addressObject(ip) })),
        ...withRoutes(result.routes),
        dns: result.dns,
      };
    case "1.0.0":
    case "1.1.0":
      return {
        cniVersion: version,
        ...withInterfaces(result, version === "1.1.0"),
        ...(result.ips.length === 0 ? {} : { ips: result.ips.map(addressObject) }),
        ...withRoutes(result.routes),
        ...(Object.keys(result.dns).length === 0 ? {} : { dns: result.dns }),
      };
  }
}

/** Returns the shape of versions before 0.3.0: one address per family, each with its routes. */
function oldestShape(result: AddResult, version: CniVersion): object {
  const blocks: Record<string, object> = {};
  for (const family of FAMILIES) {
    const [ip, ...more] = result.ips.filter(({ address }) => cidrFamily(address) === family);
    if (ip === undefined) continue;
    if (more.length > 0) {
      throw new CniError(
        CniErrorCode.UNSUPPORTED_FIELD,
        `CNI version ${version} does not support more than 1 address per family; set cniVersion to 0.3.0 or later`,
      );
    }
    const routes = result.routes.filter(({ destination }) => cidrFamily(destination) === family);
    blocks[`ip${family}`] = {
      ip: formatCidr(ip.address),
      ...(ip.gateway === undefined ? {} : { gateway: formatAddress(ip.gateway) }),
      ...withRoutes(routes),
    };
  }
  if (Object.keys(blocks).length === 0) {
    throw new CniError(CniErrorCode.UNSUPPORTED_FIELD, "cannot convert: no valid IP addresses");
  }
  return { cniVersion: version, ...blocks, dns: result.dns };
}

function withInterfaces(result: AddResult, withMtu: boolean): object {
  if (result.interfaces.length === 0) return {};
  return {
    interfaces: result.interfaces.map(({ name, mac, mtu, sandbox }) => ({
      name,
      mac,
      ...(withMtu && mtu !== undefined && mtu !== 0 ? { mtu } : {}),
      ...(sandbox === undefined ? {} : { sandbox }),
    })),
  };
}

function withRoutes(routes: readonly ResultRoute[]): object {
  if (routes.length === 0) return {};
  return {
    // The options are printed in every version, as by the reference plugins: another interface plugin may need them.
    routes: routes.map(({ destination, gateway, mtu, advmss, priority, table }) => ({
      dst: formatCidr(destination),
      gw: gateway === undefined ? undefined : formatAddress(gateway),
      mtu,
      advmss,
      priority,
      table,
    })),
  };
}

function addressObject(ip: ResultAddress): object {
  return {
    ...(ip.interface === undefined ? {} : { interface: ip.interface }),
    address: formatCidr(ip.address),
    ...(ip.gateway === undefined ? {} : { gateway: formatAddress(ip.gateway) }),
  };
}

/** Returns the default route by a gateway, in the gateway's family. */
export function defaultRoute(gateway: Address): ResultRoute {
  const everything = { address: gateway, prefixLength: 0 };
  return { destination: { ...everything, address: networkAddress(everything) }, gateway };
}
