import type { PortMapping, RecordedRules } from "../../attachment/attachment.ts";
import { MOST_NETWORKS } from "../../attachment/attachment_writer.ts";
import type { RangeSet } from "../../ipam/range.ts";
import type { Family } from "../../kernel/ip/address.ts";
import { type Cidr, formatCidr, hasHostBits, networkAddress, outermost, parseCidr } from "../../kernel/ip/cidr.ts";
import { invalidField } from "../error.ts";
import type { NetworkInput } from "./network_input.ts";
import { portMappingsOf } from "./port_mappings.ts";

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
type RangedConfiguration = NodeRulesConfiguration & { readonly ipam: { readonly ranges: readonly RangeSet[] } };

/** Returns the destinations for which pods keep their address under ipMasq, including the ranges of their addresses. */
export function unmasqueradedNetworks({ ipam, nonMasqueradeCidrs }: RangedConfiguration): readonly Cidr[] {
  return [...ipam.ranges.flat().map(({ subnet }) => subnet), ...nonMasqueradeCidrs];
}

/**
 * Returns the part of a configuration that the daemon needs to keep a pod's rules. Parts that the pod does not use are
 * omitted.
 *
 * @throws CniError 7 for more networks than a record may have
 */
export function recordedRules(configuration: RangedConfiguration): RecordedRules {
  const { portMappings, ipMasq, serviceCidrs } = configuration;
  return {
    serviceCidrs: portMappings.length === 0 ? [] : bounded("serviceCIDRs", serviceCidrs),
    nonMasqueradeCidrs: ipMasq ? bounded("nonMasqueradeCIDRs", unmasqueradedNetworks(configuration)) : [],
  };
}

function bounded(field: string, networks: readonly Cidr[]): readonly Cidr[] {
  const apart = outermost(networks);
  if (apart.length <= MOST_NETWORKS) return apart;
  throw invalidField(field, apart.length, `at most ${MOST_NETWORKS} networks apart from each other, with policyd`);
}

/**
 * Validates the part of a configuration that needs rules on the node.
 *
 * @param families the pod's address families
 * @throws CniError 7 naming the field
 * @throws DrawbridgeError ERR_ADDRESS for a text that is not an address or prefix
 */
export function nodeRulesConfiguration(input: NetworkInput, families: readonly Family[]): NodeRulesConfiguration {
  return {
    portMappings: portMappingsOf(input.runtimeConfig?.portMappings, families),
    serviceCidrs: networksOf("serviceCIDRs", input.serviceCIDRs),
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
