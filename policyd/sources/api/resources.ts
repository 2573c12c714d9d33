import { CLUSTER_POLICIES, CLUSTER_POLICY_VERSIONS } from "../../../objects/gate/gate.ts";
import type { Kind } from "../../../objects/model.ts";

/** A list of the API server, in one version. */
export interface Listed {
  readonly kind: string;
  readonly apiVersion: string;
  /** The name in RBAC and `kubectl auth can-i`: the plural, followed by a dot and the group. */
  readonly name: string;
  /** The path of the list across all namespaces. */
  readonly path: string;
  /** The objects that the daemon needs; undefined for all. The command line always reads all. */
  readonly labelSelector: string | undefined;
  /** The name of the only object to read; undefined for all. In RBAC it is a resource name. */
  readonly objectName: string | undefined;
}

/** A kind of objects in the API server, in the newest version that we know. */
export interface Resource extends VersionedKind {
  readonly kind: Kind;
}

/** A list with its older versions, of a kind that the model may not know. */
export interface VersionedKind extends Listed {
  /** Whether a server may lack this kind; then there are no such objects. */
  readonly isOptional: boolean;
  /** Versions with the same schema that a server may serve instead, the newest first. */
  readonly olderVersions: readonly string[];
}

const [NEWEST, ...OLDER] = CLUSTER_POLICY_VERSIONS;

/** The namespaces: of all kinds that every cluster has, the one with the fewest and smallest objects. */
export const NAMESPACES: Resource = ofGroup("Namespace", "namespaces", "v1");

/** All kinds Drawbridge knows, in the order in which the command line reads them. */
export const RESOURCES: readonly Resource[] = [
  NAMESPACES,
  ofGroup("Node", "nodes", "v1"),
  ofGroup("Pod", "pods", "v1"),
  ofGroup("Service", "services", "v1"),
  {
    ...ofGroup("EndpointSlice", "endpointslices", "discovery.k8s.io/v1"),
    // kube-proxy uses the same selector: headless Services are not forwarded, and some of them have many endpoints.
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

/** The definition of ClusterNetworkPolicy, which tells whether and in which versions a server has that kind. */
export const CLUSTER_POLICY_DEFINITION: Listed = {
  ...listOf("CustomResourceDefinition", "customresourcedefinitions", "apiextensions.k8s.io/v1"),
  objectName: `clusternetworkpolicies.${CLUSTER_POLICIES}`,
};

/** Returns a resource in each of its versions, the newest first. */
export function versionsOf<T extends VersionedKind>(resource: T): readonly T[] {
  const plural = resource.path.slice(resource.path.lastIndexOf("/") + 1);
  const older = resource.olderVersions.map((version) => listOf(resource.kind, plural, version));
  return [resource, ...older.map(({ apiVersion, path }) => ({ ...resource, apiVersion, path }))];
}

function ofGroup(kind: Kind, plural: string, apiVersion: string): Resource {
  return { ...listOf(kind, plural, apiVersion), kind, isOptional: false, olderVersions: [] };
}

/** Returns the list of a kind across all namespaces. @param plural the name in paths */
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
