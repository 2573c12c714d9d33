import type { LabelSelector } from "../../../objects/model.ts";
import type { Manifest } from "../manifests.ts";
import type { FieldPath } from "../../../objects/yaml/documents.ts";

/** An object by which connections from outside reach Services: not directly, but through a controller's pods. */
export type WayObject = Ingress | IngressClass | Gateway | GatewayClass | Route | ReferenceGrant;

/** Such an object with its file and line. */
export interface PlacedWayObject extends Pick<Manifest, "file" | "line" | "lineOf" | "source"> {
  readonly object: WayObject;
}

/** A port of a Service, or an object of another kind, to which requests are forwarded. */
export interface Backend {
  readonly namespace: string;
  /** `Service`; where a backend of another kind leads is not known. */
  readonly kind: string;
  readonly service: string;
  /** The port's number or, for an Ingress, its name in the Service; undefined where a route omits it. */
  readonly port: number | string | undefined;
  readonly path: FieldPath;
}

interface Named {
  readonly namespace: string;
  readonly name: string;
}

export interface Ingress extends Named {
  readonly kind: "Ingress";
  /** From its field or the older annotation; undefined where neither is set. */
  readonly className: string | undefined;
  readonly backends: readonly Backend[];
}

export interface IngressClass {
  readonly kind: "IngressClass";
  readonly name: string;
  /** Such as `k8s.io/ingress-nginx`. */
  readonly controller: string;
  /** Whether it is the default class of Ingresses. */
  readonly isDefault: boolean;
}

export interface GatewayClass {
  readonly kind: "GatewayClass";
  readonly name: string;
  /** Such as `gateway.envoyproxy.io/gatewayclass-controller`. */
  readonly controller: string;
}

export interface Gateway extends Named {
  readonly kind: "Gateway";
  readonly className: string;
  readonly listeners: readonly Listener[];
}

/** A port on which a Gateway listens, and whose routes it takes there. */
export interface Listener {
  readonly name: string;
  readonly port: number;
  readonly protocol: string;
  /** The namespaces whose routes it takes: all, its own, none, or those that a selector selects. */
  readonly from: "All" | "Same" | "None" | LabelSelector;
  /** The kinds of the routes that it takes; empty for those of its protocol. */
  readonly kinds: readonly string[];
}

export const ROUTE_KINDS = ["HTTPRoute", "GRPCRoute"] as const;

export interface Route extends Named {
  readonly kind: (typeof ROUTE_KINDS)[number];
  /** The Gateways, or objects of other kinds, that the route asks to attach to. */
  readonly parents: readonly Parent[];
  readonly backends: readonly Backend[];
}

export interface Parent extends Named {
  /** `Gateway`, or a kind that is not judged. */
  readonly kind: string;
  /** One listener, by name or port; without both, all listeners. */
  readonly sectionName: string | undefined;
  readonly port: number | undefined;
}

/** Lets routes of other namespaces use the Services of its own namespace. */
export interface ReferenceGrant {
  readonly kind: "ReferenceGrant";
  readonly namespace: string;
  readonly name: string;
  readonly from: readonly { readonly kind: string; readonly namespace: string }[];
  /** Names of Services; undefined for all. */
  readonly to: readonly (string | undefined)[];
}

/** Returns the name of an object in messages: `Ingress shop/web`, `IngressClass nginx`. */
export function wayObjectName(object: WayObject): string {
  return "namespace" in object ? `${object.kind} ${object.namespace}/${object.name}` : `${object.kind} ${object.name}`;
}
