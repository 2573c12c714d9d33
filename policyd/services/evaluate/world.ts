import type { Address } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { ConfiguredSockets } from "../../protection/configured_sockets.ts";
import type { EndpointSlice, Node, Service } from "../../cluster/model.ts";

/** What decides where packets to Services go on one node, but for chance and what clients did before. */
export interface ServiceWorld {
  /** The name of the node the packet is on. */
  readonly nodeName: string;
  readonly services: readonly Service[];
  readonly endpointSlices: readonly EndpointSlice[];
  readonly nodes: readonly Node[];
  /** The addresses of this node's pods, those of the host's network left out. */
  readonly localPods: ReadonlySet<Address>;
  /** The addresses the kernel of this node calls local, the bridge's and those of loopback among them. */
  readonly nodeAddresses: ReadonlySet<Address>;
  readonly configuration: ServiceConfiguration;
}

export interface ServiceConfiguration {
  /** Which of the node's addresses serve NodePorts; empty is all. "primary": the first of its Node object, per family. */
  readonly nodePortAddresses: readonly (Cidr | "primary")[];
  /** Services' externalIPs are passed over. */
  readonly refuseExternalIps: boolean;
  /** TCP connections to Services without endpoints are refused by a reset instead of an ICMP error. */
  readonly tcpReset: boolean;
  /** Where pods of the cluster have their addresses, beside the pod CIDRs of the Node objects. */
  readonly clusterCidrs: readonly Cidr[];
  /** Sockets that no Service gets, beside those that the cluster's own objects say; absent where every Service gets what it claims. */
  readonly protection?: ConfiguredSockets & { readonly serviceCidrs: readonly Cidr[] };
}
