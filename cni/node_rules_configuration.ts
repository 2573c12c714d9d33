import type { AttachmentRecord, PortMapping, RecordedRules } from "../ipam/attachment.ts";
import { MOST_NETWORKS } from "../ipam/attachment_decoder.ts";
import type { RangeSet } from "../ipam/range.ts";
import type { Family } from "../kernel/ip/address.ts";
import type { Cidr } from "../kernel/ip/cidr.ts";
import { formatCidr, hasHostBits, networkAddress, parseCidr } from "../kernel/ip/cidr.ts";
import { invalidField } from "./error.ts";
import type { NetworkInput } from "./network_input.ts";
import { portMappingsOf } from "./port_mappings.ts";
import { outermost } from "./set_elements.ts";

/** What a configuration asks for that takes rules on the node. */
export interface NodeRulesConfiguration {
  readonly portMappings: readonly PortMapping[];
  /** Service addresses: a port of all the node's addresses is not one of these, even where the node has them (IPVS). */
  readonly serviceCidrs: readonly Cidr[];
  readonly ipMasq: boolean;
  /** Where pods keep their own address under ipMasq, beside the ranges they get theirs from. */
  readonly nonMasqueradeCidrs: readonly Cidr[];
  readonly macspoofchk: boolean;
}

/** Whether an attachment has something in the node's tables. */
export function asksForNodeRules(use: Pick<AttachmentRecord, "portMappings" | "ipMasq" | "macspoofchk">): boolean {
  return use.portMappings.length > 0 || use.ipMasq === true || use.macspoofchk === true;
}

/** A configuration whose ranges are known. */
type RangedConfiguration = NodeRulesConfiguration & { readonly ipam: { readonly ranges: readonly RangeSet[] } };

/** Where pods keep their own address under ipMasq, the ranges they get theirs from among it. */
export function unmasqueradedNetworks({ ipam, nonMasqueradeCidrs }: RangedConfiguration): readonly Cidr[] {
  return [...ipam.ranges.flat().map(({ subnet }) => subnet), ...nonMasqueradeCidrs];
}

/**
 * What the daemon has to know of a configuration to keep a pod's rules: nothing of what the pod does not ask for.
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
 * Judges it.
 *
 * @param families those the pod gets an address of
 * @throws CniError 7 naming the field
 * @throws DrawbridgeError ERR_ADDRESS for what is no address or prefix
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
