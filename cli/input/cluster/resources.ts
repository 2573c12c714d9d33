import type { Kind } from "../../../policyd/cluster/model.ts";

/** A kind of objects that the API server lists. */
export interface Resource {
  readonly kind: Kind;
  readonly apiVersion: string;
  /** As RBAC and `kubectl auth can-i` have it: the plural, and the group behind a dot. */
  readonly name: string;
  /** Of the list across all namespaces. */
  readonly path: string;
  /** A server without this kind has none of it. */
  readonly isOptional: boolean;
  /** What an invalid one would leave open or closed cannot be guessed: there is no answer then. */
  readonly isPolicy: boolean;
}

/** All that decides who reaches whom, in the order in which it is read. */
export const RESOURCES: readonly Resource[] = [
  core("Namespace", "namespaces"),
  core("Node", "nodes"),
  core("Pod", "pods"),
  core("Service", "services"),
  ofGroup("EndpointSlice", "endpointslices", "discovery.k8s.io/v1"),
  { ...ofGroup("NetworkPolicy", "networkpolicies", "networking.k8s.io/v1"), isPolicy: true },
  {
    ...ofGroup("ClusterNetworkPolicy", "clusternetworkpolicies", "policy.networking.k8s.io/v1alpha2"),
    isPolicy: true,
    isOptional: true,
  },
];

function core(kind: Kind, plural: string): Resource {
  return { kind, apiVersion: "v1", name: plural, path: `/api/v1/${plural}`, isOptional: false, isPolicy: false };
}

function ofGroup(kind: Kind, plural: string, apiVersion: string): Resource {
  const [group] = apiVersion.split("/");
  const path = `/apis/${apiVersion}/${plural}`;
  return { kind, apiVersion, name: `${plural}.${group}`, path, isOptional: false, isPolicy: false };
}
