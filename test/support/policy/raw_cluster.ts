import { parseAddress } from "../../../kernel/ip/address.ts";
import type { Flow, FlowEnd } from "../../../objects/semantics/policies/flow.ts";

/** Objects as they stand in a file, which {@link secondReading} reads without the gate. */
export interface RawCluster {
  readonly namespaces: readonly RawNamespace[];
  readonly nodes: readonly RawNode[];
  readonly pods: readonly RawPod[];
  readonly networkPolicies: readonly RawNetworkPolicy[];
  readonly clusterNetworkPolicies: readonly RawClusterPolicy[];
}

export type RawLabels = Readonly<Record<string, string>>;

export interface RawNamespace {
  readonly metadata: { readonly name: string; readonly labels?: RawLabels };
}

export interface RawNode {
  readonly metadata: { readonly name: string; readonly labels?: RawLabels };
  readonly status: { readonly addresses: readonly { readonly type: string; readonly address: string }[] };
}

export interface RawContainer {
  readonly name: string;
  readonly restartPolicy?: string;
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number; readonly protocol?: string }[];
}

export interface RawPod {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels?: RawLabels;
    readonly deletionTimestamp?: string;
  };
  readonly spec: {
    readonly nodeName?: string;
    readonly hostNetwork?: boolean;
    readonly containers: readonly RawContainer[];
    readonly initContainers?: readonly RawContainer[];
  };
  readonly status: { readonly phase: string; readonly podIPs?: readonly { readonly ip: string }[] };
}

export interface RawSelector {
  readonly matchLabels?: RawLabels;
  readonly matchExpressions?: readonly RawExpression[];
}

export interface RawExpression {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

export interface RawPeer {
  readonly podSelector?: RawSelector;
  readonly namespaceSelector?: RawSelector;
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
}

export interface RawPort {
  readonly protocol?: string;
  readonly port?: number | string;
  readonly endPort?: number;
}

export interface RawRule {
  readonly from?: readonly RawPeer[] | null | undefined;
  readonly _from?: readonly RawPeer[] | null | undefined;
  readonly to?: readonly RawPeer[] | null | undefined;
  readonly ports?: readonly RawPort[] | null | undefined;
}

export interface RawNetworkPolicy {
  readonly metadata: { readonly name: string; readonly namespace: string; readonly annotations?: RawLabels };
  readonly spec: {
    readonly podSelector?: RawSelector;
    readonly policyTypes?: readonly string[] | undefined;
    readonly ingress?: readonly RawRule[] | null | undefined;
    readonly egress?: readonly RawRule[] | null | undefined;
  };
}

export interface RawClusterPeer {
  readonly namespaces?: RawSelector;
  readonly pods?: { readonly namespaceSelector?: RawSelector; readonly podSelector: RawSelector };
  readonly nodes?: RawSelector;
  readonly networks?: readonly string[];
  readonly domainNames?: readonly string[];
}

export interface RawClusterPort {
  readonly tcp?: RawDestination;
  readonly udp?: RawDestination;
  readonly sctp?: RawDestination;
  readonly destinationNamedPort?: string;
}

interface RawDestination {
  readonly destinationPort: {
    readonly number?: number;
    readonly range?: { readonly start: number; readonly end: number };
  };
}

export interface RawClusterRule {
  readonly action: string;
  readonly from?: readonly RawClusterPeer[];
  readonly to?: readonly RawClusterPeer[];
  readonly protocols?: readonly RawClusterPort[];
}

export interface RawClusterPolicy {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly tier: string;
    readonly priority: number;
    readonly subject: RawClusterPeer;
    readonly ingress?: readonly RawClusterRule[];
    readonly egress?: readonly RawClusterRule[];
  };
}

/** A flow in words: ends are `pod NAMESPACE/NAME`, `node NAME` or an address. */
export interface RawFlow {
  readonly source: string;
  readonly destination: string;
  readonly protocol: "TCP" | "UDP" | "SCTP" | "ICMP" | "ICMP error";
  readonly port: number;
  readonly isIpv6: boolean;
  readonly isThroughService: boolean;
}

/** Returns the manifests of a cluster, to be read through the gate. */
export function manifestsOf(cluster: RawCluster): readonly object[] {
  const of = (apiVersion: string, kind: string, objects: readonly object[]): readonly object[] =>
    objects.map((one) => ({ apiVersion, kind, ...one }));
  return [
    ...of("v1", "Namespace", cluster.namespaces),
    ...of("v1", "Node", cluster.nodes),
    ...of("v1", "Pod", cluster.pods),
    ...of("networking.k8s.io/v1", "NetworkPolicy", cluster.networkPolicies),
    ...of("policy.networking.k8s.io/v1beta1", "ClusterNetworkPolicy", cluster.clusterNetworkPolicies),
  ];
}

/** Returns a flow in the form that the evaluator takes. */
export function flowOf({ source, destination, protocol, port, isIpv6, isThroughService }: RawFlow): Flow {
  const ends = { source: endOf(source), destination: endOf(destination), isThroughService };
  const family = isIpv6 ? 6 : 4;
  if (protocol === "ICMP" || protocol === "ICMP error") return { ...ends, family, protocol };
  return { ...ends, family, protocol, port };
}

function endOf(text: string): FlowEnd {
  const [kind, name = ""] = text.split(" ");
  if (kind === "pod") return { type: "pod", key: name };
  return kind === "node" ? { type: "node", name } : { type: "address", address: parseAddress(text) };
}
