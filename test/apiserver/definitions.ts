import { CLUSTER_POLICY_DEFINITION, RESOURCES, versionsOf } from "../../policyd/sources/api/resources.ts";
import type { RawObject } from "./storage.ts";

/** The CRD of ClusterNetworkPolicies as an administrator made it. */
export interface Definition {
  /** The served versions, the newest first; none for a deleted CRD. */
  readonly versions: readonly string[];
  /** Whether the server has accepted its names; true by default. */
  readonly isEstablished?: boolean;
  /** The milliseconds for which the server still serves the previous versions. */
  readonly lag?: number;
}

export const DEFINITIONS_PATH = CLUSTER_POLICY_DEFINITION.path;

const GROUP = "policy.networking.k8s.io";

/** The lists of ClusterNetworkPolicies in each version that we know, the newest first. */
export const CLUSTER_POLICY_PATHS: readonly string[] = RESOURCES.filter(
  ({ kind }) => kind === "ClusterNetworkPolicy",
).flatMap((resource) => versionsOf(resource).map(({ path }) => path));

/** Returns the path of the list of one version. */
export function pathOfVersion(version: string): string {
  return `/apis/${GROUP}/${version}/clusternetworkpolicies`;
}

/** Returns the CRD as the server stores it. */
export function definitionOf({ versions, isEstablished = true }: Definition): RawObject {
  const status = isEstablished ? "True" : "False";
  return {
    apiVersion: CLUSTER_POLICY_DEFINITION.apiVersion,
    kind: CLUSTER_POLICY_DEFINITION.kind,
    metadata: { name: CLUSTER_POLICY_DEFINITION.objectName },
    spec: {
      group: GROUP,
      scope: "Cluster",
      names: { plural: "clusternetworkpolicies", kind: "ClusterNetworkPolicy", shortNames: ["cnp"] },
      versions: [
        ...versions.map((name, index) => ({ name, served: true, storage: index === 0, schema: {} })),
        { name: "v0", served: false, storage: false, schema: {} },
      ],
    },
    status: {
      conditions: [
        { type: "NamesAccepted", status },
        { type: "Established", status },
      ],
    },
  };
}
