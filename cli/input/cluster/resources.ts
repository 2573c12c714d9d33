import { listOf, RESOURCES as API_RESOURCES, type VersionedKind } from "../../../policyd/sources/api/resources.ts";

/** A kind of objects that the command line asks the API server for. */
export interface Resource extends VersionedKind {
  /** An invalid policy ends the command: what it would open or close cannot be guessed. */
  readonly isPolicy: boolean;
}

/** All kinds that decide who reaches whom, in the order in which they are read. */
export const RESOURCES: readonly Resource[] = API_RESOURCES.flatMap((resource) =>
  resource.kind === "ServiceCIDR" ? [] : [{ ...resource, isPolicy: resource.kind.endsWith("Policy") }],
);

const NETWORKING = "networking.k8s.io/v1";
const GATEWAYS = "gateway.networking.k8s.io/v1";
const OLDER_GATEWAYS = "gateway.networking.k8s.io/v1beta1";

/** All kinds that describe how connections come in. Answers about pods are complete without them. */
export const WAY_RESOURCES: readonly Resource[] = [
  wayResource("Ingress", "ingresses", NETWORKING),
  wayResource("IngressClass", "ingressclasses", NETWORKING),
  wayResource("GatewayClass", "gatewayclasses", GATEWAYS, OLDER_GATEWAYS),
  wayResource("Gateway", "gateways", GATEWAYS, OLDER_GATEWAYS),
  wayResource("HTTPRoute", "httproutes", GATEWAYS, OLDER_GATEWAYS),
  wayResource("GRPCRoute", "grpcroutes", GATEWAYS),
  wayResource("ReferenceGrant", "referencegrants", GATEWAYS, OLDER_GATEWAYS),
];

function wayResource(kind: string, plural: string, apiVersion: string, ...olderVersions: readonly string[]): Resource {
  return { ...listOf(kind, plural, apiVersion), isOptional: true, olderVersions, isPolicy: false };
}
