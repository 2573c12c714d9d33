import { isName } from "../../ipam/owner.ts";
import { canonicalRange, canonicalRangeSets, type RangeInput, type RangeSet } from "../../ipam/range.ts";
import {
  type Address,
  type Family,
  formatAddress,
  parseAddress,
  FAMILIES,
  SMALLEST_IPV6_MTU,
} from "../../kernel/ip/address.ts";
import { cidrContains, cidrFamily, formatCidr, parseCidr } from "../../kernel/ip/cidr.ts";
import { type MacAddress, parseMac } from "../../kernel/ip/mac.ts";
import type { CniArguments } from "../environment.ts";
import { CniError, CniErrorCode, invalidField, showValue } from "../error.ts";
import { OWN_IPAM } from "../executables.ts";
import type { Dns, ResultRoute } from "../result.ts";
import type { CniVersion } from "../version.ts";
import { type Limits, limitsOf } from "./bandwidth.ts";
import { configuredRoutes } from "./configured_routes.ts";
import { DATA_DIRECTORY, RUN_DIRECTORY } from "./decoding.ts";
import { checkDirectory, checkInterfaceName } from "./names.ts";
import type { NetworkInput } from "./network_input.ts";
import { type NodeRulesConfiguration, nodeRulesConfiguration } from "./node_rules_configuration.ts";
import { policydAccess, type RegistrationAccess } from "./policyd_access.ts";
import { refuseUnsupported } from "./unsupported.ts";

/** A network configuration whose every field has been validated. */
export interface NetworkConfiguration {
  readonly cniVersion: CniVersion;
  /** `[a-zA-Z0-9][a-zA-Z0-9_.-]*`: it names a directory of the address store. */
  readonly name: string;
  readonly runDir: string;
  readonly ipam: IpamConfiguration;
  /** The `dns` of the configuration, which replaces the contents of resolvConf. */
  readonly dns: Dns;
}

/** Configuration of the `drawbridge` face: wiring and addresses. */
export interface BridgeConfiguration extends NetworkConfiguration, NodeRulesConfiguration {
  readonly bridge: string;
  readonly hairpinMode: boolean;
  /** Whether packets go around the bridge where possible; otherwise the bridge sees and counts them all. */
  readonly bypassBridge: boolean;
  /** Whether the pod gets default routes that are not configured; without them it reaches only its routes' networks. */
  readonly isDefaultGateway: boolean;
  /** Whether a pod gets an IPv6 address. */
  readonly hasIpv6: boolean;
  /** Bytes; 0 keeps the kernel's default. */
  readonly mtu: number;
  /** A MAC address the runtime asks for: runtimeConfig has priority over args.cni, and that over CNI_ARGS. */
  readonly mac: MacAddress | undefined;
  readonly limits: Limits | undefined;
  /** The daemon that each pod is registered with; undefined when the plugin works without one. */
  readonly policyd: RegistrationAccess | undefined;
}

export interface IpamConfiguration {
  readonly dataDir: string;
  readonly ranges: readonly RangeSet[];
  readonly requested: readonly Address[];
  readonly routes: readonly ResultRoute[];
  readonly resolvConf: string | undefined;
}

/**
 * Validates the configuration of the plugin that answers as `drawbridge`.
 *
 * @param isForeignIpam whether another program gives the addresses, so that they are not known yet
 * @throws CniError 2 for a feature this version does not have, 7 for a value it refuses
 * @throws DrawbridgeError ERR_CONFIGURATION or ERR_ADDRESS naming the field
 */
export function bridgeConfiguration(
  input: NetworkInput,
  args: CniArguments,
  isForeignIpam = false,
): BridgeConfiguration {
  refuseUnsupported(input);
  const network = isForeignIpam ? foreignNetwork(input) : networkConfiguration(input, args);
  checkGateways(network.ipam.ranges);
  return onNetwork(input, args, network, isForeignIpam ? FAMILIES : familiesOf(network.ipam.ranges));
}

/** As {@link bridgeConfiguration}, and with its errors, for a network whose addresses are validated already. */
export function onNetwork(
  input: NetworkInput,
  args: CniArguments,
  network: NetworkConfiguration,
  families = familiesOf(network.ipam.ranges),
): BridgeConfiguration {
  const [macField, mac] = firstPresent([
    ["runtimeConfig.mac", input.runtimeConfig?.mac],
    ["args.cni.mac", input.args?.cni?.mac],
    ["CNI_ARGS MAC", args.mac],
  ]);
  const hasIpv6 = familiesOf(network.ipam.ranges).includes(6);
  return {
    ...network,
    hasIpv6,
    bridge: checkInterfaceName(input.bridge ?? "drawbridge0", "bridge", CniErrorCode.INVALID_CONFIGURATION),
    hairpinMode: input.hairpinMode ?? false,
    bypassBridge: input.bypassBridge ?? true,
    isDefaultGateway: input.isDefaultGateway ?? true,
    mtu: mtuOf(input, hasIpv6),
    mac: mac === undefined ? undefined : parseMac(mac, macField),
    limits: limitsOf(input.runtimeConfig),
    policyd: policydAccess(input.policyd),
    ...nodeRulesConfiguration(input, families),
  };
}

/** @throws CniError 7 */
function mtuOf({ mtu = 0 }: NetworkInput, needsIpv6: boolean): number {
  const smallest = needsIpv6 ? SMALLEST_IPV6_MTU : 68;
  if (!Number.isInteger(mtu) || (mtu !== 0 && (mtu < smallest || mtu > 65535))) {
    throw invalidField(
      "mtu",
      mtu,
      `0 (the kernel's default) or ${smallest} to 65535${needsIpv6 ? ", since IPv6 needs 1280" : ""}`,
    );
  }
  return mtu;
}

/** Returns the address families of a pod, each once. */
function familiesOf(sets: readonly RangeSet[]): readonly Family[] {
  const families = new Set<Family>();
  for (const [range] of sets) if (range !== undefined) families.add(cidrFamily(range.subnet));
  return [...families];
}

/**
 * Validates the part that every face that allocates addresses reads.
 *
 * @throws CniError 7, DrawbridgeError ERR_CONFIGURATION or ERR_ADDRESS naming the field
 */
export function networkConfiguration(input: NetworkInput, args: CniArguments): NetworkConfiguration {
  checkType("type", input.type);
  const { cniVersion, name } = input;
  const ipam = ipamConfiguration(input, args);
  checkExpressible(cniVersion, ipam.ranges);
  return {
    cniVersion,
    name,
    runDir: checkDirectory("runDir", input.runDir || RUN_DIRECTORY),
    ipam,
    dns: input.dns ?? {},
  };
}

/** Validates a network whose addresses an external IPAM plugin gives: that plugin validates everything below `ipam`. */
function foreignNetwork(input: NetworkInput): NetworkConfiguration {
  checkType("type", input.type);
  return {
    cniVersion: input.cniVersion,
    name: input.name,
    runDir: checkDirectory("runDir", input.runDir || RUN_DIRECTORY),
    ipam: { dataDir: DATA_DIRECTORY, ranges: [], requested: [], routes: [], resolvConf: undefined },
    dns: input.dns ?? {},
  };
}

function ipamConfiguration(input: NetworkInput, args: CniArguments): IpamConfiguration {
  const ipam = input.ipam;
  if (ipam === undefined)
    throw invalidField("ipam", undefined, `an object with type ${OWN_IPAM.join(" or ")} and ranges`);
  checkType("ipam.type", ipam.type);
  if (!OWN_IPAM.includes(ipam.type ?? "")) {
    throw new CniError(
      CniErrorCode.UNSUPPORTED_FIELD,
      `ipam.type: ${showValue(ipam.type)}; expected one of ${OWN_IPAM.join(", ")}`,
    );
  }
  const ranges = rangeSets(input.runtimeConfig?.ipRanges ?? [], ipam);
  const requested = [
    ...(args.ip === undefined ? [] : [["CNI_ARGS IP", args.ip] as const]),
    ...(input.args?.cni?.ips ?? []).map((ip, i) => [`args.cni.ips[${i}]`, ip] as const),
    ...(input.runtimeConfig?.ips ?? []).map((ip, i) => [`runtimeConfig.ips[${i}]`, ip] as const),
  ];
  return {
    dataDir: checkDirectory("ipam.dataDir", ipam.dataDir || DATA_DIRECTORY),
    ranges,
    requested: requested.map(([field, ip]) =>
      ip.includes("/") ? parseCidr(ip, field).address : parseAddress(ip, field),
    ),
    routes: configuredRoutes(ipam.routes ?? []),
    resolvConf: ipam.resolvConf ? checkDirectory("ipam.resolvConf", ipam.resolvConf) : undefined,
  };
}

/**
 * Returns the range sets in host-local's order: the ones from the runtime, then the old style of one range without a
 * list, then the list. Each source is validated separately first, so that a refusal names the field as it was written.
 */
function rangeSets(
  passed: readonly (readonly RangeInput[])[],
  ipam: NonNullable<NetworkInput["ipam"]>,
): readonly RangeSet[] {
  const listed = ipam.ranges ?? [];
  const single = ipam.subnet === undefined ? [] : [[{ ...ipam, subnet: ipam.subnet }]];
  if (passed.length === 0 && single.length === 0) return canonicalRangeSets(listed, "ipam.ranges");
  if (passed.length > 0) canonicalRangeSets(passed, "runtimeConfig.ipRanges");
  for (const [range] of single) if (range !== undefined) canonicalRange(range, "ipam");
  if (listed.length > 0) canonicalRangeSets(listed, "ipam.ranges");
  return canonicalRangeSets([...passed, ...single, ...listed], "ipam.ranges");
}

/** Refuses several addresses of a family, which versions before 0.3.0 cannot express. @throws CniError 2 */
export function checkExpressible(version: CniVersion, ranges: readonly RangeSet[]): void {
  if (version !== "0.1.0" && version !== "0.2.0") return;
  const families = ranges.flatMap(([range]) => (range === undefined ? [] : [cidrFamily(range.subnet)]));
  if (new Set(families).size === families.length) return;
  throw new CniError(
    CniErrorCode.UNSUPPORTED_FIELD,
    `cniVersion: CNI version ${version} does not support more than 1 address per family; expected 0.3.0 or later for ${families.length} range sets`,
  );
}

/** Requires gateways to lie in their subnet: the bridge has their addresses, and reaches the pods by that subnet. */
function checkGateways(sets: readonly RangeSet[]): void {
  for (const set of sets) {
    for (const { gateway, subnet } of set) {
      if (cidrContains(subnet, gateway)) continue;
      throw invalidField(
        "ipam gateway",
        formatAddress(gateway),
        `an address of ${formatCidr(subnet)}: the bridge carries it`,
      );
    }
  }
}

/** Requires a plugin type to be a file name in the runtime's plugin directory, never a path (CVE-2021-20206). */
function checkType(field: string, type: string | undefined): void {
  if (type === undefined || !isName(type)) {
    throw invalidField(
      field,
      type,
      `a plugin's file name without a path, such as "${field === "type" ? "drawbridge" : "host-local"}"`,
    );
  }
}

function firstPresent(
  candidates: readonly (readonly [field: string, value: string | undefined])[],
): readonly [field: string, value: string | undefined] {
  for (const candidate of candidates) if (candidate[1]) return candidate;
  return ["", undefined];
}
