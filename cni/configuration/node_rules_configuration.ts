import type { PortMapping } from "../../attachment/attachment.ts";
import type { RangeSet } from "../../ipam/range.ts";
import { type Address, type Family, parseAddress } from "../../kernel/ip/address.ts";
import {
  type Cidr,
  cidrContains,
  formatCidr,
  hasHostBits,
  IPV4_MAPPED,
  networkAddress,
  outermost,
  parseCidr,
} from "../../kernel/ip/cidr.ts";
import { invalidField } from "../error.ts";
import type { NetworkInput } from "./network_input.ts";
import { isTransport } from "../../kernel/ip/protocol.ts";
import { BROADCAST, LINK_LOCAL, MULTICAST } from "../../kernel/ip/special.ts";
import { claimsOf } from "../../attachment/host_port_claim.ts";

/** The part of a configuration that needs rules on the node. */
export interface NodeRulesConfiguration {
  readonly portMappings: readonly PortMapping[];
  /** Service addresses: ports on all of the node's addresses exclude these, even where the node has them (IPVS). */
  readonly serviceCidrs: readonly Cidr[];
  readonly ipMasq: boolean;
  /** The destinations for which pods keep their own address under ipMasq, besides the ranges of the pods' addresses. */
  readonly nonMasqueradeCidrs: readonly Cidr[];
  readonly macspoofchk: boolean;
}

/** A configuration whose ranges are known. */
export type RangedConfiguration = NodeRulesConfiguration & { readonly ipam: { readonly ranges: readonly RangeSet[] } };

/** Returns the destinations for which pods keep their address under ipMasq, including the ranges of their addresses. */
export function unmasqueradedNetworks({ ipam, nonMasqueradeCidrs }: RangedConfiguration): readonly Cidr[] {
  return [...ipam.ranges.flat().map(({ subnet }) => subnet), ...nonMasqueradeCidrs];
}

/**
 * Validates the part of a configuration that needs rules on the node.
 *
 * @param families the pod's address families
 * @throws CniError 7 naming the field
 * @throws DrawbridgeError ERR_ADDRESS for a text that is not an address or prefix
 */
export function nodeRulesConfiguration(input: NetworkInput, families: readonly Family[]): NodeRulesConfiguration {
  const portMappings = portMappingsOf(input.runtimeConfig?.portMappings, families);
  const serviceCidrs = outermost(networksOf("serviceCIDRs", input.serviceCIDRs));
  if (portMappings.length * serviceCidrs.length > MOST_EXCEPTIONS) {
    const most = Math.floor(MOST_EXCEPTIONS / serviceCidrs.length);
    const expectation = `at most ${most} mappings for one pod, with ${serviceCidrs.length} serviceCIDRs: publish fewer ports`;
    throw invalidField("runtimeConfig.portMappings.length", portMappings.length, expectation);
  }
  return {
    portMappings,
    serviceCidrs,
    ipMasq: input.ipMasq ?? false,
    nonMasqueradeCidrs: networksOf("nonMasqueradeCIDRs", input.nonMasqueradeCIDRs),
    macspoofchk: input.macspoofchk ?? false,
  };
}

function networksOf(field: string, list: readonly string[] = []): readonly Cidr[] {
  return list.map((text, index) => {
    const cidr = parseCidr(text, `${field}[${index}]`);
    if (!hasHostBits(cidr)) return cidr;
    const network = formatCidr({ ...cidr, address: networkAddress(cidr) });
    throw invalidField(`${field}[${index}]`, text, `a network without host bits, such as ${network}`);
  });
}

/** The prefixes of addresses at which a port cannot be published, and the reasons. */
const unpublishable = [
  [LINK_LOCAL[6], "not link-local, since the node forwards nothing from there"],
  [MULTICAST[4], "not multicast"],
  [MULTICAST[6], "not multicast"],
  [IPV4_MAPPED, "an IPv4 address in its own form"],
  [BROADCAST, "not broadcast"],
] as const;

/**
 * The most pairs of a mapping and one of the serviceCIDRs. Each pair is an element of a set that all pods share, and
 * adding that many takes some seconds, for which the node's other pods wait.
 */
const MOST_EXCEPTIONS = 8192;

/** About the number that an attachment record has room for. Each mapping takes elements of sets that all pods share. */
const MOST_MAPPINGS = 1024;

/**
 * Validates the `portMappings` capability.
 *
 * As with `portmap`, a mapping counts only for the families of the pod, one of a single address goes before that of all,
 * and a repetition counts once.
 *
 * @param families the pod's address families
 * @throws CniError 7 naming the field
 * @throws DrawbridgeError ERR_ADDRESS for a hostIP that is not an address
 */
function portMappingsOf(
  list: NonNullable<NetworkInput["runtimeConfig"]>["portMappings"],
  families: readonly Family[],
): readonly PortMapping[] {
  const inputs = list ?? [];
  if (inputs.length > MOST_MAPPINGS) {
    throw invalidField(
      "runtimeConfig.portMappings.length",
      inputs.length,
      `at most ${MOST_MAPPINGS} mappings for one pod: publish fewer ports`,
    );
  }
  const mappings = inputs.map(portMappingOf);
  const holders = new Map<string, PortMapping>();
  // First those of all addresses: they include repetitions for all addresses of one family.
  return mappings
    .toSorted((a, b) => Number(a.hostIp !== undefined) - Number(b.hostIp !== undefined))
    .filter((mapping) => {
      const { protocol, hostPort, containerPort } = mapping;
      const isNew = claimsOf(mapping, families).map(({ family, address = "all" }) => {
        const key = [family, address, protocol, hostPort].join(" ");
        const holder = holders.get(key) ?? mapping;
        holders.set(key, holder);
        if (holder.containerPort === containerPort) return holder === mapping;
        throw invalidField(
          `runtimeConfig.portMappings[${mappings.indexOf(mapping)}].hostPort`,
          hostPort,
          `a port of its own: portMappings[${mappings.indexOf(holder)}] has it for another containerPort`,
        );
      });
      return isNew.includes(true);
    });
}

type Input = NonNullable<NonNullable<NetworkInput["runtimeConfig"]>["portMappings"]>[number];

function portMappingOf(input: Input, index: number): PortMapping {
  const field = `runtimeConfig.portMappings[${index}]`;
  const protocol = input.protocol?.toLowerCase();
  if (!isTransport(protocol)) {
    throw invalidField(`${field}.protocol`, input.protocol, "tcp, udp or sctp");
  }
  const hostIp = input.hostIP ? hostIpOf(input.hostIP, `${field}.hostIP`) : undefined;
  return {
    hostPort: portOf(input.hostPort, `${field}.hostPort`),
    containerPort: portOf(input.containerPort, `${field}.containerPort`),
    protocol,
    ...(hostIp === undefined ? {} : { hostIp }),
  };
}

function portOf(port: number | undefined, field: string): number {
  if (port !== undefined && Number.isInteger(port) && port >= 1 && port <= 65535) return port;
  throw invalidField(field, port, "an integer of 1 to 65535");
}

function hostIpOf(text: string, field: string): Address {
  const address = parseAddress(text, field);
  for (const [cidr, expectation] of unpublishable) {
    if (cidrContains(cidr, address)) throw invalidField(field, text, `an address of the node, ${expectation}`);
  }
  return address;
}
