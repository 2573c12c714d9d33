import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, addressPlus, bitsOf, familyOf, parseAddress } from "../../kernel/ip/address.ts";
import {
  type Cidr,
  cidrContains,
  cidrFamily,
  formatCidr,
  IPV4_MAPPED,
  lastAddress,
  networkAddress,
  parseCidr,
} from "../../kernel/ip/cidr.ts";
import {
  bothFamilies,
  isLinkLocal,
  LINK_LOCAL,
  LOOPBACK,
  MULTICAST,
  RESERVED_IPV4,
  UNSPECIFIED,
} from "../../kernel/ip/special.ts";
import { configuredRoutes } from "../configuration/configured_routes.ts";
import { CniError, CniErrorCode, invalidField } from "../error.ts";
import { decode, type Decoded, isNestedDeeper, isObject } from "../json.ts";
import { dnsShape, routeShape } from "../configuration/network_input.ts";
import type { Dns, ResultRoute } from "../result.ts";
import { type CniVersion, negotiateVersion } from "../version.ts";

/** The addresses, routes and DNS settings that an external IPAM plugin gives a pod. */
export interface GivenAddresses {
  readonly addresses: readonly GivenAddress[];
  readonly routes: readonly ResultRoute[];
  readonly dns: Dns;
}

/** One address with the prefix length of its subnet, and the next hop of the pod. */
export interface GivenAddress {
  readonly address: Cidr;
  readonly gateway: Address;
}

/** More than any pod has: each address is a reservation, a neighbour entry and perhaps a route. */
const MOST_ADDRESSES = 32;
const MOST_ROUTES = 1024;
const MOST_DNS_ENTRIES = 64;
const LONGEST_DNS_ENTRY = 255;
const MOST_LEVELS = 16;

const FIELD = "IPAM result";

const ipShape = { address: "string", gateway: "string" } as const;
const shape = { cniVersion: "any", ips: [ipShape], routes: [routeShape], dns: dnsShape } as const;
const oldBlock = { ip: "string", gateway: "string", routes: [routeShape] } as const;
const oldShape = { cniVersion: "any", ip4: oldBlock, ip6: oldBlock, dns: dnsShape } as const;

type IpInput = Decoded<typeof ipShape>;
type RouteInput = Decoded<typeof routeShape>;
type DnsInput = Decoded<typeof dnsShape>;

/** Addresses that a single pod cannot have: "this" network, loopback, multicast and reserved; unspecified, loopback, mapped, link-local, multicast. */
const FORBIDDEN: readonly Cidr[] = [
  ...bothFamilies(UNSPECIFIED, LOOPBACK, MULTICAST),
  RESERVED_IPV4,
  LINK_LOCAL[6],
  IPV4_MAPPED,
];

/** The shortest prefixes: with a shorter one, the bridge's address would capture many routes of the node. */
const SHORTEST_PREFIX = { 4: 8, 6: 16 } as const;

/** The next hops of a pod whose IPAM plugin names no gateway and whose subnet has no room for one. */
const NEXT_HOPS = { 4: parseAddress("169.254.1.1"), 6: parseAddress("fe80::1") } as const;

/**
 * Reads an IPAM plugin's output: a result without interfaces (CNI specification, "Delegated plugins"), in any version.
 * It comes from another program, so counts, lengths and addresses are validated.
 *
 * @param version of the configuration, which applies if the result names none
 * @throws CniError 6 naming the field
 */
export function readIpamAnswer(text: string, version: CniVersion): GivenAddresses {
  return asDecodingFailure(() => {
    const value = parse(text);
    const asked = decode(value, { cniVersion: "any" }, FIELD).cniVersion;
    const spoken = asked === undefined || asked === "" ? version : negotiateVersion(asked);
    const isOld = spoken === "0.1.0" || spoken === "0.2.0";
    return isOld ? readOld(decode(value, oldShape, FIELD)) : readNew(decode(value, shape, FIELD));
  });
}

function parse(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalidField(FIELD, text, "a JSON object");
  }
  if (!isObject(value)) throw invalidField(FIELD, text, "a JSON object");
  if (isNestedDeeper(value, MOST_LEVELS))
    throw invalidField(FIELD, "…", `objects and lists of at most ${MOST_LEVELS} levels`);
  return value;
}

function readNew({ ips = [], routes = [], dns = {} }: Decoded<typeof shape>): GivenAddresses {
  return judge(
    ips.map((ip, index) => [`${FIELD}.ips[${index}]`, ip]),
    [[`${FIELD}.routes`, routes]],
    dns,
  );
}

function readOld({ ip4, ip6, dns = {} }: Decoded<typeof oldShape>): GivenAddresses {
  const blocks = (
    [
      [4, "ip4", ip4],
      [6, "ip6", ip6],
    ] as const
  ).flatMap(([family, name, block]) => (block === undefined ? [] : [{ family, field: `${FIELD}.${name}`, block }]));
  const given = judge(
    blocks.map(({ field, block: { ip, ...rest } }) => [
      field,
      { ...rest, ...(ip === undefined ? {} : { address: ip }) },
    ]),
    blocks.map(({ field, block }) => [`${field}.routes`, block.routes ?? []]),
    dns,
  );
  for (const [index, { address }] of given.addresses.entries()) {
    const { family, field } = blocks[index] ?? {};
    if (cidrFamily(address) !== family)
      throw invalidField(`${field}.ip`, formatCidr(address), `an IPv${family} address`);
  }
  return given;
}

function judge(
  ips: readonly (readonly [field: string, ip: IpInput])[],
  routes: readonly (readonly [field: string, routes: readonly RouteInput[]])[],
  dns: DnsInput,
): GivenAddresses {
  if (ips.length === 0 || ips.length > MOST_ADDRESSES) {
    throw invalidField(`${FIELD}.ips`, ips.length, `1 to ${MOST_ADDRESSES} addresses`);
  }
  const addresses: GivenAddress[] = [];
  for (const [field, ip] of ips) {
    const given = judgeAddress(ip, field);
    if (addresses.some(({ address }) => address.address === given.address.address)) {
      throw invalidField(`${field}.address`, ip.address, "an address that it gives once");
    }
    addresses.push(given);
  }
  const count = routes.reduce((sum, [, list]) => sum + list.length, 0);
  if (count > MOST_ROUTES) throw invalidField(`${FIELD}.routes`, count, `at most ${MOST_ROUTES} routes`);
  const judged = routes.flatMap(([field, list]) => configuredRoutes(list, field));
  judgeDns(dns);
  return Object.freeze({ addresses: Object.freeze(addresses), routes: Object.freeze(judged), dns });
}

function judgeAddress({ address: text, gateway: gatewayText }: IpInput, field: string): GivenAddress {
  if (text === undefined)
    throw invalidField(`${field}.address`, text, 'an address with its prefix length, such as "10.1.2.3/24"');
  const address = parseCidr(text, `${field}.address`);
  const bits = bitsOf(cidrFamily(address));
  const isWhole = address.prefixLength < bits - 1;
  const isForbidden =
    FORBIDDEN.some((prefix) => cidrContains(prefix, address.address)) ||
    (isWhole && cidrFamily(address) === 4 && address.address === lastAddress(address)) ||
    (isWhole && address.address === networkAddress(address));
  const shortest = SHORTEST_PREFIX[cidrFamily(address)];
  if (isForbidden || address.prefixLength < shortest) {
    throw invalidField(`${field}.address`, text, `a unicast address of a subnet of /${shortest} or longer`);
  }
  if (gatewayText === undefined || gatewayText === "") return { address, gateway: ownGateway(address) };
  const gateway = parseAddress(gatewayText, `${field}.gateway`);
  const isUsable =
    familyOf(gateway) === cidrFamily(address) &&
    gateway !== address.address &&
    (isLinkLocal(gateway) || !FORBIDDEN.some((prefix) => cidrContains(prefix, gateway)));
  if (isUsable) return { address, gateway };
  throw invalidField(
    `${field}.gateway`,
    gatewayText,
    `a unicast IPv${cidrFamily(address)} address other than the pod's`,
  );
}

/** Returns the subnet's first address that is not the pod's, as the reference bridge does; else a link-local one. */
function ownGateway(address: Cidr): Address {
  const family = cidrFamily(address);
  if (address.prefixLength > bitsOf(family) - 2) return NEXT_HOPS[family];
  const first = addressPlus(networkAddress(address), 1n);
  const candidate = first === address.address ? addressPlus(networkAddress(address), 2n) : first;
  return candidate ?? NEXT_HOPS[family];
}

function judgeDns(dns: DnsInput): void {
  for (const key of ["nameservers", "search", "options"] as const) {
    const list = dns[key] ?? [];
    if (list.length > MOST_DNS_ENTRIES)
      throw invalidField(`${FIELD}.dns.${key}`, list.length, `at most ${MOST_DNS_ENTRIES} entries`);
    for (const [index, entry] of list.entries()) judgeDnsEntry(`${FIELD}.dns.${key}[${index}]`, entry);
  }
  judgeDnsEntry(`${FIELD}.dns.domain`, dns.domain ?? "");
}

/** Validates an entry, which the runtime writes as a part of a line into the pod's resolv.conf. */
function judgeDnsEntry(field: string, entry: string): void {
  // oxlint-disable-next-line no-control-regex -- control characters are what is refused here
  if (entry.length <= LONGEST_DNS_ENTRY && !/[\u0000-\u001f\u007f]/.test(entry)) return;
  throw invalidField(field, entry, `at most ${LONGEST_DNS_ENTRY} characters without control characters`);
}

/** Reports an invalid answer as a decoding failure, since the configuration is not the cause. */
function asDecodingFailure<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof CniError) throw new CniError(CniErrorCode.DECODING_FAILURE, error.message, error.details);
    if (error instanceof DrawbridgeError) throw new CniError(CniErrorCode.DECODING_FAILURE, error.message, error.code);
    throw error;
  }
}
