import type { Configuration } from "../../configuration/configuration.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { FrontendRefusals } from "../../protection/socket_index.ts";

/** The configuration that the rules of Services depend on; the rules are the same whatever is in the cluster. */
export interface ServiceRules {
  /** The bit of the packet mark which says that a packet leaves with the node's address. */
  readonly masqueradeBit: number;
  /** TCP connections to Services without endpoints are refused by a reset instead of an ICMP error. */
  readonly tcpReset: boolean;
  /** Packets that connection tracking calls invalid are dropped if they are for Services or come from local pods. */
  readonly dropInvalid: boolean;
}

/** The facts that decide, together with a Service and its slices, where its packets go on one node. */
export interface CompileContext {
  readonly nodeName: string;
  /** The node's label `topology.kubernetes.io/zone`. */
  readonly zone: string | undefined;
  /** The node's first address of each family, from its Node object. */
  readonly primaryAddresses: readonly Address[];
  /** Services' externalIPs are ignored. */
  readonly refuseExternalIps: boolean;
  /** Decides which frontends no Service gets; without it every Service gets what it claims. */
  readonly protection?: FrontendRefusals;
  /** The number of elements for which the Service's namespace has room; without it there is room for all. */
  readonly room?: number;
}

/** The addresses that serve NodePorts; none means all. "primary": {@link CompileContext.primaryAddresses}. */
export type NodePortAddresses = readonly (Cidr | "primary")[];

/**
 * Returns the configured options of Services' rules, which do not depend on objects; undefined where another program
 * serves Services.
 */
export function serviceRules({ services, markBits, tcpReset, dropInvalid }: Configuration): ServiceRules | undefined {
  if (!services) return undefined;
  return { masqueradeBit: markBits.masquerade, tcpReset, dropInvalid };
}
