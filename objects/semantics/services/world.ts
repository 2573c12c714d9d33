import type { Address } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { ConfiguredSockets } from "../../socket_refusal.ts";
import type { EndpointSlice, Node, Service } from "../../model.ts";

/** All facts that decide where packets to Services go on one node, except chance and earlier connections of clients. */
export interface ServiceWorld {
  /** The name of the node the packet is on. */
  readonly nodeName: string;
  readonly services: readonly Service[];
  readonly endpointSlices: readonly EndpointSlice[];
  /** As all parts use them. */
  readonly nodes: readonly Node[];
  /** The addresses of this node's pods, except those in the host network. */
  readonly localPods: ReadonlySet<Address>;
  /** The addresses that the kernel of this node calls local, including the bridge's and those of loopback. */
  readonly nodeAddresses: ReadonlySet<Address>;
  readonly configuration: ServiceConfiguration;
}

export interface ServiceConfiguration {
  /** The node's addresses that serve NodePorts; empty means all. "primary": the first of its Node object per family. */
  readonly nodePortAddresses: readonly (Cidr | "primary")[];
  /** Services' externalIPs are ignored. */
  readonly refuseExternalIps: boolean;
  /** TCP connections to Services without endpoints are refused by a reset instead of an ICMP error. */
  readonly tcpReset: boolean;
  /** The networks of the cluster's pods, in addition to the pod CIDRs of the Node objects. */
  readonly clusterCidrs: readonly Cidr[];
  /** Sockets that no Service gets, beside those in the cluster's objects; without it they get all they claim. */
  readonly protection?: ConfiguredSockets & { readonly serviceCidrs: readonly Cidr[] };
}
