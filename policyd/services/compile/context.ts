import type { Address } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { FrontendRefusals } from "../../protection/socket_index.ts";

/** What the rules of Services depend on: they are the same whatever is in the cluster. */
export interface ServiceRules {
  /** The bit of packets' marks that says that a packet leaves with the node's address. */
  readonly masqueradeBit: number;
  /** TCP connections to Services without endpoints are refused by a reset instead of an ICMP error. */
  readonly tcpReset: boolean;
  /** Packets that connection tracking calls invalid are dropped where they concern Services or come from local pods. */
  readonly dropInvalid: boolean;
}

/** What decides, beside a Service and its slices, where its packets go on one node. */
export interface CompileContext {
  readonly nodeName: string;
  /** The node's label `topology.kubernetes.io/zone`. */
  readonly zone: string | undefined;
  /** The node's first address of each family, as its Node object has them. */
  readonly primaryAddresses: readonly Address[];
  /** Services' externalIPs are passed over. */
  readonly refuseExternalIps: boolean;
  /** Which frontends no Service gets; without it every Service gets what it claims. */
  readonly protection?: FrontendRefusals;
}

/** Which of the node's addresses serve NodePorts; none given is all. "primary" is {@link CompileContext}'s. */
export type NodePortAddresses = readonly (Cidr | "primary")[];
