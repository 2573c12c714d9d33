import type { Address } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";

/**
 * What Drawbridge knows of a cluster: the fields it uses of eight kinds, defaults filled in, addresses and ports parsed.
 *
 * All values are frozen and made by the gates in `gate/` alone, wherever an object comes from. An absent field is
 * undefined and never missing, so that two objects are equal when their values are.
 */
export type ClusterObject =
  | Namespace
  | Pod
  | Node
  | Service
  | EndpointSlice
  | NetworkPolicy
  | ClusterNetworkPolicy
  | ServiceCidr;

export type Kind = ClusterObject["kind"];

export const KINDS: readonly Kind[] = [
  "Namespace",
  "Node",
  "Pod",
  "Service",
  "EndpointSlice",
  "NetworkPolicy",
  "ClusterNetworkPolicy",
  "ServiceCIDR",
];

/** Labels or annotations. Without a prototype: a key such as "constructor" is absent unless it is there. */
export type Labels = Readonly<Record<string, string>>;

export type Protocol = "TCP" | "UDP" | "SCTP";

interface Identified<K extends string> {
  readonly kind: K;
  /** `namespace/name`, or the name alone of a kind without namespaces; unique among the objects of the kind. */
  readonly key: string;
  readonly name: string;
}

interface Namespaced<K extends string> extends Identified<K> {
  readonly namespace: string;
}

/** What is told from another object that had its name before. */
interface WithUid {
  /** Empty where a file gives none. */
  readonly uid: string;
}

export interface Namespace extends Identified<"Namespace">, WithUid {
  readonly labels: Labels;
  readonly isTerminating: boolean;
}

export interface Pod extends Namespaced<"Pod">, WithUid {
  /** Of a Pod that mirrors a static pod: the uid by which its kubelet and the runtime know that one. */
  readonly staticUid: string | undefined;
  readonly labels: Labels;
  readonly annotations: Labels;
  /** What made it and replaces it, by its owner references; undefined for a pod that stands alone. */
  readonly controller: Controller | undefined;
  /** All of status.podIPs; those of the node for a pod of the host's network. */
  readonly addresses: readonly Address[];
  readonly nodeName: string | undefined;
  readonly hostNetwork: boolean;
  readonly phase: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
  /** Asked to end; it runs, and stays what policies make of it, until it is gone. */
  readonly isTerminating: boolean;
  /** The named ports of its containers and native sidecars. */
  readonly ports: readonly ContainerPort[];
}

export interface Controller {
  readonly kind: string;
  readonly name: string;
}

export interface ContainerPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

export interface Node extends Identified<"Node"> {
  readonly labels: Labels;
  /** Those that are IP addresses: names are left out. */
  readonly addresses: readonly NodeAddress[];
  readonly podCidrs: readonly Cidr[];
  /** Being deleted, or about to be by the cluster autoscaler (its taint ToBeDeletedByClusterAutoscaler). */
  readonly isLeaving: boolean;
  /** It has the condition NetworkUnavailable, and that is not False: nothing is scheduled on it. */
  readonly isNetworkUnavailable: boolean;
}

export interface NodeAddress {
  readonly type: "InternalIP" | "ExternalIP";
  readonly address: Address;
}

/** Who else than Drawbridge may look after a Service or a slice, by its labels. */
export interface ProxyLabels {
  /** Label `service.kubernetes.io/service-proxy-name`: another proxy serves it. */
  readonly proxyName: string | undefined;
  /** Label `service.kubernetes.io/headless`, whatever its value. */
  readonly hasHeadlessLabel: boolean;
}

export interface Service extends Namespaced<"Service">, ProxyLabels, WithUid {
  /** When the API server made it, in milliseconds since 1970; infinite where that is not known, as in files. */
  readonly createdAt: number;
  readonly annotations: Labels;
  readonly type: "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName";
  /** Empty for a headless Service, one without an address yet and an ExternalName. */
  readonly clusterIps: readonly Address[];
  readonly isHeadless: boolean;
  readonly ports: readonly ServicePort[];
  readonly externalIps: readonly Address[];
  readonly loadBalancerIngress: readonly LoadBalancerIngress[];
  /** Undefined lets everyone in; an empty list nobody: every entry of it was invalid. */
  readonly loadBalancerSourceRanges: readonly Cidr[] | undefined;
  readonly externalTrafficPolicy: "Cluster" | "Local";
  readonly internalTrafficPolicy: "Cluster" | "Local";
  readonly healthCheckNodePort: number | undefined;
  /** How long a client stays with its endpoint, in seconds; undefined without session affinity. */
  readonly affinitySeconds: number | undefined;
  readonly publishNotReadyAddresses: boolean;
  /** "PreferClose", "PreferSameZone", "PreferSameNode", or what a later API adds. */
  readonly trafficDistribution: string | undefined;
}

export interface ServicePort {
  /** Empty where a Service's only port has none. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** For people: where packets go is the port of the EndpointSlice (SVC-02). */
  readonly targetPort: number | string;
  readonly nodePort: number | undefined;
}

export interface LoadBalancerIngress {
  readonly address: Address;
  /** VIP: packets arrive with this address. Proxy: the balancer sends to a node's address itself. */
  readonly ipMode: "VIP" | "Proxy";
}

export interface EndpointSlice extends Namespaced<"EndpointSlice">, ProxyLabels {
  /** Label `kubernetes.io/service-name`; without it the slice belongs to no Service. */
  readonly serviceName: string | undefined;
  readonly addressType: "IPv4" | "IPv6" | "FQDN";
  readonly ports: readonly EndpointPort[];
  /** None for FQDN. */
  readonly endpoints: readonly Endpoint[];
}

export interface EndpointPort {
  readonly name: string;
  readonly protocol: Protocol;
  /** Undefined: any port, which a Service cannot use. */
  readonly port: number | undefined;
}

export interface Endpoint {
  /** Of the slice's family: the first it has, as all stand for the same thing and the first is the one to use. */
  readonly address: Address;
  readonly isReady: boolean;
  readonly isServing: boolean;
  readonly isTerminating: boolean;
  readonly nodeName: string | undefined;
  /** Names of zones, of nodes; undefined without such a hint. */
  readonly zoneHints: readonly string[] | undefined;
  readonly nodeHints: readonly string[] | undefined;
  /** `namespace/name` of the pod behind it. */
  readonly podKey: string | undefined;
}

/** A policy whose changes are counted by the API server. */
interface WithGeneration {
  /** The number of the object's last change of its spec, from 1; 0 where a file gives none. */
  readonly generation: number;
}

export interface NetworkPolicy extends Namespaced<"NetworkPolicy">, WithUid, WithGeneration {
  readonly annotations: Labels;
  readonly podSelector: LabelSelector;
  /** The directions in which the selected pods are isolated. */
  readonly policyTypes: readonly PolicyType[];
  readonly ingress: readonly PolicyRule[];
  readonly egress: readonly PolicyRule[];
}

export type PolicyType = "Ingress" | "Egress";

export interface PolicyRule extends Indexed {
  /** Undefined is everyone, inside the cluster and out; an empty list nobody: every peer of it was invalid. */
  readonly peers: readonly PolicyPeer[] | undefined;
  /** Undefined is every port of every protocol; an empty list none: every port of it was invalid. */
  readonly ports: readonly PolicyPort[] | undefined;
}

/** An element of a list: invalid ones are left out, and the others keep their places. */
export interface Indexed {
  /** Its place in the list of the object as it was written, from 0. */
  readonly index: number;
}

export type PolicyPeer = PodPeer | IpBlockPeer;

export interface PodPeer extends Indexed {
  readonly type: "pods";
  /** Undefined selects every pod. */
  readonly podSelector: LabelSelector | undefined;
  /** Undefined selects the policy's own namespace. */
  readonly namespaceSelector: LabelSelector | undefined;
}

export interface IpBlockPeer extends Indexed {
  readonly type: "ipBlock";
  /** Network addresses, host bits cleared. */
  readonly cidr: Cidr;
  readonly except: readonly Cidr[];
}

export interface PolicyPort extends Indexed {
  readonly protocol: Protocol;
  /** A number, a container port's name, or undefined for every port of the protocol. */
  readonly port: number | string | undefined;
  /** The last port of a range that begins at `port`. */
  readonly endPort: number | undefined;
}

/** A policy.networking.k8s.io ClusterNetworkPolicy: of its rules for a flow the first that matches counts. */
export interface ClusterNetworkPolicy extends Identified<"ClusterNetworkPolicy">, WithUid, WithGeneration {
  readonly tier: ClusterPolicyTier;
  /** From 0 to 1000; of one tier the lowest comes first. */
  readonly priority: number;
  readonly subject: NamespacedPods;
  readonly ingress: readonly ClusterPolicyRule[];
  readonly egress: readonly ClusterPolicyRule[];
}

/** Before all NetworkPolicies, or after them for the pods that none of them selects. */
export type ClusterPolicyTier = "Admin" | "Baseline";

/** Pass goes on with the next tier. */
export type ClusterPolicyAction = "Accept" | "Deny" | "Pass";

export interface ClusterPolicyRule extends Indexed {
  /** For people alone. */
  readonly name: string | undefined;
  readonly action: ClusterPolicyAction;
  /** Undefined is everyone, an empty list nobody: only rules that could not be read have either. */
  readonly peers: readonly ClusterPolicyPeer[] | undefined;
  /** Undefined is every port of every protocol. */
  readonly ports: readonly ClusterPolicyPort[] | undefined;
  /** Why it could not be read: it fails closed, so an Accept accepts nobody and the others are a Deny of everyone. */
  readonly unreadable: string | undefined;
}

export type ClusterPolicyPeer = NamespacedPods | NodePeer | NetworkPeer;

/** The pods that podSelector selects, all where it is undefined, in the namespaces that namespaceSelector selects. */
export interface NamespacedPods extends PodPeer {
  readonly namespaceSelector: LabelSelector;
}

export interface NodePeer extends Indexed {
  readonly type: "nodes";
  readonly selector: LabelSelector;
}

export interface NetworkPeer extends Indexed {
  readonly type: "networks";
  readonly cidrs: readonly Cidr[];
}

export interface ClusterPolicyPort extends Indexed {
  /** Undefined for a name, which may be of any protocol. */
  readonly protocol: Protocol | undefined;
  /** A number or a container port's name. */
  readonly port: number | string;
  /** The last port of a range that begins at `port`. */
  readonly endPort: number | undefined;
}

/** Ranges from which the API server takes ClusterIPs, beside those of other ServiceCIDRs. */
export interface ServiceCidr extends Identified<"ServiceCIDR"> {
  /** Network addresses, host bits cleared. */
  readonly cidrs: readonly Cidr[];
}

/** Everything of it must hold; without a requirement it selects everything. */
export interface LabelSelector {
  readonly matchLabels: Labels;
  readonly matchExpressions: readonly LabelRequirement[];
}

export interface LabelRequirement {
  readonly key: string;
  readonly operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
  /** At least one for In and NotIn, none for the others. */
  readonly values: readonly string[];
}
