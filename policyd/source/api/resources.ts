import type { Kind } from "../../cluster/model.ts";

/** A kind of objects that the API server lists. */
export interface Resource {
  readonly kind: Kind;
  readonly apiVersion: string;
  /** As RBAC and `kubectl auth can-i` have it: the plural, and the group behind a dot. */
  readonly name: string;
  /** Of the list across all namespaces. */
  readonly path: string;
  /** What the daemon asks for of it; undefined for everything. The command line asks for everything. */
  readonly labelSelector: string | undefined;
  /** A server without this kind has none of it. */
  readonly isOptional: boolean;
}

/** Of all kinds the one with the fewest and smallest objects that every cluster has. */
export const NAMESPACES: Resource = ofGroup("Namespace", "namespaces", "v1");

/** All kinds Drawbridge knows, in the order in which the command line reads them. */
export const RESOURCES: readonly Resource[] = [
  NAMESPACES,
  ofGroup("Node", "nodes", "v1"),
  ofGroup("Pod", "pods", "v1"),
  ofGroup("Service", "services", "v1"),
  {
    ...ofGroup("EndpointSlice", "endpointslices", "discovery.k8s.io/v1"),
    // As kube-proxy asks: nobody forwards to a headless Service, and some of them have many endpoints.
    labelSelector: "!service.kubernetes.io/headless",
  },
  ofGroup("NetworkPolicy", "networkpolicies", "networking.k8s.io/v1"),
  {
    ...ofGroup("ClusterNetworkPolicy", "clusternetworkpolicies", "policy.networking.k8s.io/v1alpha2"),
    isOptional: true,
  },
  // Servers before 1.33 have none, or only a beta of it.
  { ...ofGroup("ServiceCIDR", "servicecidrs", "networking.k8s.io/v1"), isOptional: true },
];

function ofGroup(kind: Kind, plural: string, apiVersion: string): Resource {
  const [group = "", version] = apiVersion.split("/");
  const isCore = version === undefined;
  return {
    kind,
    apiVersion,
    name: isCore ? plural : `${plural}.${group}`,
    path: `${isCore ? "/api" : "/apis"}/${apiVersion}/${plural}`,
    labelSelector: undefined,
    isOptional: false,
  };
}
