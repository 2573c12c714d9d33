import { parseAddress } from "../../../kernel/ip/address.ts";
import type { Flow, FlowEnd } from "../../../objects/semantics/policies/flow.ts";

/** Objects as they stand in a file. */
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

/** The rules of a direction; a list may be absent or null, as in files. */
type RawRules = readonly object[] | null | undefined;

export interface RawNetworkPolicy {
  readonly metadata: { readonly name: string; readonly namespace: string; readonly annotations?: RawLabels };
  readonly spec: { readonly ingress?: RawRules; readonly egress?: RawRules };
}

export interface RawClusterPolicy {
  readonly metadata: { readonly name: string };
  readonly spec: object;
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
