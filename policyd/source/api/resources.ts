import { CLUSTER_POLICIES, CLUSTER_POLICY_VERSIONS } from "../../cluster/gate.ts";
import type { Kind } from "../../cluster/model.ts";

/** A list that the API server is asked for, in one version. */
export interface Listed {
  readonly kind: string;
  readonly apiVersion: string;
  /** As RBAC and `kubectl auth can-i` have it: the plural, and the group behind a dot. */
  readonly name: string;
  /** Of the list across all namespaces. */
  readonly path: string;
  /** What the daemon asks for of it; undefined for everything. The command line asks for everything. */
  readonly labelSelector: string | undefined;
  /** The one object that is asked for, by its name; undefined for all. RBAC takes it for a resource name. */
  readonly objectName: string | undefined;
}

/** A kind of objects that the API server lists, in the newest version that we know. */
export interface Resource extends VersionedKind {
  readonly kind: Kind;
}

/** The same of any kind. */
export interface VersionedKind extends Listed {
  /** A server without this kind has none of it. */
  readonly isOptional: boolean;
  /** Versions with the same schema that a server may have instead, the newest first. */
  readonly olderVersions: readonly string[];
}

const [NEWEST, ...OLDER] = CLUSTER_POLICY_VERSIONS;

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
    ...ofGroup("ClusterNetworkPolicy", "clusternetworkpolicies", `${CLUSTER_POLICIES}/${NEWEST}`),
    isOptional: true,
    olderVersions: OLDER.map((version) => `${CLUSTER_POLICIES}/${version}`),
  },
  // Servers before 1.33 have none, or only a beta of it.
  { ...ofGroup("ServiceCIDR", "servicecidrs", "networking.k8s.io/v1"), isOptional: true },
];

/** The definition of ClusterNetworkPolicy, which says whether and in which versions a server has that kind. */
export const CLUSTER_POLICY_DEFINITION: Listed = {
  ...listOf("CustomResourceDefinition", "customresourcedefinitions", "apiextensions.k8s.io/v1"),
  objectName: `clusternetworkpolicies.${CLUSTER_POLICIES}`,
};

/** A resource in each of its versions, the newest first. */
export function versionsOf<T extends VersionedKind>(resource: T): readonly T[] {
  const plural = resource.path.slice(resource.path.lastIndexOf("/") + 1);
  const older = resource.olderVersions.map((version) => listOf(resource.kind, plural, version));
  return [resource, ...older.map(({ apiVersion, path }) => ({ ...resource, apiVersion, path }))];
}

function ofGroup(kind: Kind, plural: string, apiVersion: string): Resource {
  return { ...listOf(kind, plural, apiVersion), kind, isOptional: false, olderVersions: [] };
}

/** The list of a kind across all namespaces. @param plural as paths have it */
export function listOf(kind: string, plural: string, apiVersion: string): Listed {
  const [group = "", version] = apiVersion.split("/");
  const isCore = version === undefined;
  return {
    kind,
    apiVersion,
    name: isCore ? plural : `${plural}.${group}`,
    path: `${isCore ? "/api" : "/apis"}/${apiVersion}/${plural}`,
    labelSelector: undefined,
    objectName: undefined,
  };
}
