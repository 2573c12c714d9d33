import type { VersionedKind } from "../../../policyd/source/api/resources.ts";
import { listOf, RESOURCES as API_RESOURCES } from "../../../policyd/source/api/resources.ts";

/** A kind of objects that the command line asks the API server for. */
export interface Resource extends VersionedKind {
  /** What an invalid one would leave open or closed cannot be guessed: there is no answer then. */
  readonly isPolicy: boolean;
}

/** All that decides who reaches whom, in the order in which it is read. */
export const RESOURCES: readonly Resource[] = API_RESOURCES.flatMap((resource) =>
  resource.kind === "ServiceCIDR" ? [] : [{ ...resource, isPolicy: resource.kind.endsWith("Policy") }],
);

const NETWORKING = "networking.k8s.io/v1";
const GATEWAYS = "gateway.networking.k8s.io/v1";
const OLDER_GATEWAYS = "gateway.networking.k8s.io/v1beta1";

/** All that says by which ways connections come in. Answers about pods are whole without it. */
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
