import type { Address } from "../kernel/ip/address.ts";
import type { Cidr } from "../kernel/ip/cidr.ts";

/**
 * The fields of an object that Drawbridge uses, for eight kinds, with defaults filled in and addresses and ports
 * parsed.
 *
 * All values are frozen, and only the gates in `gate/` make them, whatever the source of an object. An absent field is
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

/** Labels or annotations. They have no prototype, so that a key such as "constructor" is absent unless it was set. */
export type Labels = Readonly<Record<string, string>>;

export type Protocol = "TCP" | "UDP" | "SCTP";

interface Identified<K extends string> {
  readonly kind: K;
  /** `namespace/name`, or only the name for a kind without namespaces; unique among the objects of the kind. */
  readonly key: string;
  readonly name: string;
}

interface Namespaced<K extends string> extends Identified<K> {
  readonly namespace: string;
}

/** An object whose uid distinguishes it from an earlier object of the same name. */
interface WithUid {
  /** Empty where a file gives none. */
  readonly uid: string;
}

export interface Namespace extends Identified<"Namespace">, WithUid {
  readonly labels: Labels;
  readonly isTerminating: boolean;
}

export interface Pod extends Namespaced<"Pod">, WithUid {
  /** The uid by which kubelet and runtime know a static pod; undefined for a Pod that does not mirror one. */
  readonly staticUid: string | undefined;
  readonly labels: Labels;
  readonly annotations: Labels;
  /** The controller that replaces it, from its owner references; undefined for a pod without one. */
  readonly controller: Controller | undefined;
  /** All of status.podIPs; for a pod of the host's network, the node's addresses. */
  readonly addresses: readonly Address[];
  readonly nodeName: string | undefined;
  readonly hostNetwork: boolean;
  readonly phase: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
  /** Whether it was asked to end. Until it is gone it may run, and policies apply as before. */
  readonly isTerminating: boolean;
  /** The named ports of its containers and native sidecars. */
  readonly ports: readonly ContainerPort[];
}

export interface Controller {
  readonly kind: string;
  readonly name: string;
  /** The labels by which it finds its pods, only where a file has the controller itself. */
  readonly selector?: Labels;
}

export interface ContainerPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

export interface Node extends Identified<"Node"> {
  readonly labels: Labels;
  /** Only IP addresses, without host names. */
  readonly addresses: readonly NodeAddress[];
  readonly podCidrs: readonly Cidr[];
  /** Whether it is being deleted, or is about to be (the autoscaler's taint ToBeDeletedByClusterAutoscaler). */
  readonly isLeaving: boolean;
  /** Since when its condition Ready is not True, in milliseconds since 1970; absent for a Ready one and in files. */
  readonly notReadySince?: number;
  /** Whether it has the condition NetworkUnavailable and that is not False: no pod is scheduled on it. */
  readonly isNetworkUnavailable: boolean;
}

export interface NodeAddress {
  readonly type: "InternalIP" | "ExternalIP";
  readonly address: Address;
}

/** The labels by which another proxy may serve a Service or a slice. */
export interface ProxyLabels {
  /** Label `service.kubernetes.io/service-proxy-name`: another proxy serves it. */
  readonly proxyName: string | undefined;
  /** Label `service.kubernetes.io/headless`, whatever its value. */
  readonly hasHeadlessLabel: boolean;
}

/** With the value "true" a Service's source ranges apply to every external frontend, including NodePorts (LB-06). */
export const ENFORCE_SOURCE_RANGES = "drawbridge.dev/enforce-source-ranges";

export interface Service extends Namespaced<"Service">, ProxyLabels, WithUid {
  /** The time of its creation, in milliseconds since 1970; infinite where that is unknown, as in files. */
  readonly createdAt: number;
  readonly annotations: Labels;
  readonly type: "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName";
  /** Empty for a headless Service, one without an address yet and an ExternalName. */
  readonly clusterIps: readonly Address[];
  readonly isHeadless: boolean;
  readonly ports: readonly ServicePort[];
  readonly externalIps: readonly Address[];
  readonly loadBalancerIngress: readonly LoadBalancerIngress[];
  /** Undefined admits all clients. An empty list admits none: every entry of it was invalid. */
  readonly loadBalancerSourceRanges: readonly Cidr[] | undefined;
  readonly externalTrafficPolicy: "Cluster" | "Local";
  readonly internalTrafficPolicy: "Cluster" | "Local";
  readonly healthCheckNodePort: number | undefined;
  /** The seconds for which a client stays with its endpoint; undefined without session affinity. */
  readonly affinitySeconds: number | undefined;
  readonly publishNotReadyAddresses: boolean;
  /** "PreferClose", "PreferSameZone", "PreferSameNode", or a value of a later API. */
  readonly trafficDistribution: string | undefined;
}

export interface ServicePort {
  /** Empty where a Service's only port has none. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** For people only: packets go to the port of the EndpointSlice (SVC-02). */
  readonly targetPort: number | string;
  readonly nodePort: number | undefined;
}

export interface LoadBalancerIngress {
  readonly address: Address;
  /** VIP: packets arrive with this address. Proxy: the load balancer itself sends to a node's address. */
  readonly ipMode: "VIP" | "Proxy";
}

export interface EndpointSlice extends Namespaced<"EndpointSlice">, ProxyLabels {
  /** Label `kubernetes.io/service-name`; without it the slice belongs to no Service. */
  readonly serviceName: string | undefined;
  readonly addressType: "IPv4" | "IPv6" | "FQDN";
  readonly ports: readonly EndpointPort[];
  /** Empty for FQDN. */
  readonly endpoints: readonly Endpoint[];
}

export interface EndpointPort {
  readonly name: string;
  readonly protocol: Protocol;
  /** Undefined: any port, which a Service cannot use. */
  readonly port: number | undefined;
}

export interface Endpoint {
  /** The first address, of the slice's family. An endpoint's addresses are equivalent; the first is to be used. */
  readonly address: Address;
  readonly isReady: boolean;
  readonly isServing: boolean;
  readonly isTerminating: boolean;
  readonly nodeName: string | undefined;
  /** The names of zones, and below those of nodes; undefined without such a hint. */
  readonly zoneHints: readonly string[] | undefined;
  readonly nodeHints: readonly string[] | undefined;
  /** `namespace/name` of the endpoint's pod. */
  readonly podKey: string | undefined;
}

/** A policy whose changes are counted by the API server. */
interface WithGeneration {
  /** The number of the last change of its spec, from 1; 0 where a file gives none. */
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
  /** Undefined means everyone, inside the cluster and outside; an empty list nobody: every peer of it was invalid. */
  readonly peers: readonly PolicyPeer[] | undefined;
  /** Undefined means every port of every protocol; an empty list none: every port of it was invalid. */
  readonly ports: readonly PolicyPort[] | undefined;
}

/** An element of a list: invalid ones are omitted, and the others keep their places. */
export interface Indexed {
  /** Its place in the list of the original object, from 0. */
  readonly index: number;
}

export type PolicyPeer = PodPeer | IpBlockPeer | NamePeer;

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

/** A policy.networking.k8s.io ClusterNetworkPolicy. Of its rules, the first that matches a flow counts. */
export interface ClusterNetworkPolicy extends Identified<"ClusterNetworkPolicy">, WithUid, WithGeneration {
  readonly tier: ClusterPolicyTier;
  /** From 0 to 1000; within a tier the lowest comes first. */
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
  /** For people only. */
  readonly name: string | undefined;
  readonly action: ClusterPolicyAction;
  /** Undefined means everyone, an empty list nobody: only rules that could not be read have either. */
  readonly peers: readonly ClusterPolicyPeer[] | undefined;
  /** Undefined means every port of every protocol. */
  readonly ports: readonly ClusterPolicyPort[] | undefined;
  /** Why it could not be read. It fails closed: an Accept accepts nobody, and others are a Deny of everyone. */
  readonly unreadable: string | undefined;
}

export type ClusterPolicyPeer = NamespacedPods | NodePeer | NetworkPeer | NamePeer;

/** The pods that podSelector selects (all if it is undefined) in the namespaces that namespaceSelector selects. */
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

/** The addresses that DNS gives a pod for names: only for egress, and only for the pods that asked for them. */
export interface NamePeer extends Indexed {
  readonly type: "names";
  /** As `expectDomainPattern` returns them. */
  readonly names: readonly string[];
}

export interface ClusterPolicyPort extends Indexed {
  /** Undefined for a name, which may be of any protocol. */
  readonly protocol: Protocol | undefined;
  /** A number or a container port's name. */
  readonly port: number | string;
  /** The last port of a range that begins at `port`. */
  readonly endPort: number | undefined;
}

/** Ranges from which the API server allocates ClusterIPs, in addition to those of other ServiceCIDRs. */
export interface ServiceCidr extends Identified<"ServiceCIDR"> {
  /** Network addresses, host bits cleared. */
  readonly cidrs: readonly Cidr[];
}

/** A selector, all of whose requirements must hold; without a requirement it selects everything. */
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

/** One object appeared or changed, or is gone. */
export type ObjectChange =
  | { readonly type: "set"; readonly kind: Kind; readonly key: string; readonly object: ClusterObject }
  | { readonly type: "delete"; readonly kind: Kind; readonly key: string };
