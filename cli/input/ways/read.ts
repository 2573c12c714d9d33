import { attempt } from "../../../kernel/error.ts";
import { readMetadata, readNamespacedMetadata } from "../../../objects/gate/metadata.ts";
import { readSelector } from "../../../objects/gate/selector.ts";
import { expectName, expectPort } from "../../../objects/name.ts";
import { Reader } from "../../../objects/gate/reader.ts";
import type { FieldPath } from "../../../objects/yaml/documents.ts";
import { textAt } from "../raw.ts";
import type { Backend, Listener, Parent, Route, WayObject } from "./way_object.ts";

const GATEWAYS = "gateway.networking.k8s.io";
const CLASS_ANNOTATION = "kubernetes.io/ingress.class";
const DEFAULT_ANNOTATION = "ingressclass.kubernetes.io/is-default-class";

type Read = (object: Reader, source: unknown) => WayObject;

/** The readers by group and kind; versions of one group have the same fields. */
const READS: ReadonlyMap<string, { readonly versions: readonly string[]; readonly read: Read }> = new Map(
  Object.entries({
    "networking.k8s.io/Ingress": { versions: ["v1"], read: readIngress },
    "networking.k8s.io/IngressClass": { versions: ["v1"], read: readIngressClass },
    [`${GATEWAYS}/GatewayClass`]: { versions: ["v1", "v1beta1"], read: readGatewayClass },
    [`${GATEWAYS}/Gateway`]: { versions: ["v1", "v1beta1"], read: readGateway },
    [`${GATEWAYS}/HTTPRoute`]: { versions: ["v1", "v1beta1"], read: (object) => readRoute(object, "HTTPRoute") },
    [`${GATEWAYS}/GRPCRoute`]: { versions: ["v1"], read: (object) => readRoute(object, "GRPCRoute") },
    [`${GATEWAYS}/ReferenceGrant`]: { versions: ["v1", "v1beta1"], read: readReferenceGrant },
  }),
);

/** Kinds, with their groups, that bring in connections, too, but are not read. */
const NOT_READ: ReadonlySet<string> = new Set([
  "extensions/Ingress",
  `${GATEWAYS}/TCPRoute`,
  `${GATEWAYS}/TLSRoute`,
  `${GATEWAYS}/UDPRoute`,
  `${GATEWAYS}/ListenerSet`,
  "gateway.networking.x-k8s.io/XListenerSet",
  "inference.networking.k8s.io/InferencePool",
  "route.openshift.io/Route",
  "traefik.io/IngressRoute",
  "traefik.containo.us/IngressRoute",
  "projectcontour.io/HTTPProxy",
]);

/** Returns the reader for a kind in a version; undefined for any other kind. */
function readOf(apiVersion: string, kind: string): Read | undefined {
  const [group = "", version = ""] = apiVersion.split("/");
  const known = READS.get(`${group}/${kind}`);
  return known?.versions.includes(version) === true ? known.read : undefined;
}

/** Returns whether a kind describes how connections come in, even if {@link readWayObject} refuses it. */
export function isWayKind(apiVersion: string, kind: string): boolean {
  const [group = ""] = apiVersion.split("/");
  return READS.has(`${group}/${kind}`) || NOT_READ.has(`${group}/${kind}`);
}

/**
 * Reads an object that describes how connections come in.
 *
 * @returns a message that begins with kind and name where it cannot be read
 */
export function readWayObject(source: unknown): WayObject | string {
  const [apiVersion, kind] = [textAt(source, "apiVersion") ?? "", textAt(source, "kind") ?? ""];
  const read = readOf(apiVersion, kind);
  const name = ["namespace", "name"].flatMap((field) => textAt(source, "metadata", field) ?? []).join("/");
  if (read === undefined) return `${kind} ${name}: this kind of ${JSON.stringify(apiVersion)} is not read`;
  return attempt<WayObject | string>(
    () => Object.freeze(read(new Reader(source, ""), source)),
    (error) => `${kind} ${name}: ${error.message}`,
  );
}

function readIngress(object: Reader, source: unknown): WayObject {
  const { namespace, name } = readNamespacedMetadata(object);
  const spec = object.object("spec");
  const byDefault = spec.optionalObject("defaultBackend");
  const rules = spec.all("rules", (value, field, i) => {
    const rule = new Reader(value, field);
    return rule.object("http").all("paths", (one, at, j) => {
      const path = new Reader(one, at);
      return ingressBackend(path.object("backend"), namespace, ["spec", "rules", i, "http", "paths", j]);
    });
  });
  const backends = [
    byDefault === undefined ? undefined : ingressBackend(byDefault, namespace, ["spec", "defaultBackend"]),
    ...rules.flat(),
  ].filter((one) => one !== undefined);
  const className =
    spec.optionalString("ingressClassName") || textAt(source, "metadata", "annotations", CLASS_ANNOTATION);
  return { kind: "Ingress", namespace, name, className: className || undefined, backends };
}

function ingressBackend(backend: Reader, namespace: string, path: FieldPath): Backend {
  const service = backend.optionalObject("service");
  if (service === undefined) {
    const resource = backend.object("resource");
    return { namespace, kind: resource.string("kind"), service: resource.string("name"), port: undefined, path };
  }
  const port = service.object("port");
  const number = port.optionalInteger("number", 0, 65_535);
  return {
    namespace,
    kind: "Service",
    service: expectName(service.get("name"), service.path("name")),
    // The API server treats zero as absent.
    port: number ? number : port.string("name"),
    path,
  };
}

function readIngressClass(object: Reader, source: unknown): WayObject {
  return {
    kind: "IngressClass",
    name: readMetadata(object).name,
    controller: object.object("spec").optionalString("controller") ?? "",
    isDefault: textAt(source, "metadata", "annotations", DEFAULT_ANNOTATION) === "true",
  };
}

function readGatewayClass(object: Reader): WayObject {
  const controller = object.object("spec").string("controllerName");
  return { kind: "GatewayClass", name: readMetadata(object).name, controller };
}

function readGateway(object: Reader): WayObject {
  const { namespace, name } = readNamespacedMetadata(object);
  const spec = object.object("spec");
  const listeners = spec.all("listeners", (value, field): Listener => {
    const listener = new Reader(value, field);
    const allowed = listener.object("allowedRoutes");
    const namespaces = allowed.object("namespaces");
    const kinds = allowed.all("kinds", (one, at) => {
      const kind = new Reader(one, at);
      // A kind of another group is not read, and still excludes those that are.
      return (kind.optionalString("group") || GATEWAYS) === GATEWAYS ? kind.string("kind") : "";
    });
    const from = namespaces.oneOf("from", ["All", "Selector", "Same", "None"], "Same");
    return {
      name: listener.string("name"),
      port: expectPort(listener.get("port"), listener.path("port")),
      protocol: listener.string("protocol"),
      kinds,
      from: from === "Selector" ? readSelector(namespaces.object("selector")) : from,
    };
  });
  return { kind: "Gateway", namespace, name, className: spec.string("gatewayClassName"), listeners };
}

function readRoute(object: Reader, kind: Route["kind"]): WayObject {
  const { namespace, name } = readNamespacedMetadata(object);
  const spec = object.object("spec");
  const parents = spec.all("parentRefs", (value, field): Parent | undefined => {
    const parent = new Reader(value, field);
    const group = parent.optionalString("group") ?? GATEWAYS;
    const ofParent = parent.optionalString("kind") ?? "Gateway";
    // A Service as parent, Istio's ServiceEntry or a kind of Linkerd is about what pods of the cluster send or get.
    if (group === "" || group === "policy.linkerd.io" || ofParent === "ServiceEntry") return undefined;
    return {
      kind: group === GATEWAYS || ofParent !== "Gateway" ? ofParent : `${ofParent} of ${group}`,
      namespace: parent.optionalString("namespace") ?? namespace,
      name: parent.string("name"),
      sectionName: parent.optionalString("sectionName"),
      port: parent.optionalInteger("port", 1, 65_535),
    };
  });
  const backends = spec.all("rules", (value, field, i) => {
    const rule = new Reader(value, field);
    const path: FieldPath = ["spec", "rules", i];
    const mirrors = rule.all("filters", (filter, at, j) => {
      const mirror = new Reader(filter, at).object("requestMirror").optionalObject("backendRef");
      return mirror === undefined ? undefined : routeBackend(mirror, namespace, [...path, "filters", j]);
    });
    const own = rule.all("backendRefs", (one, at, j) =>
      routeBackend(new Reader(one, at), namespace, [...path, "backendRefs", j]),
    );
    return [...own, ...mirrors];
  });
  return {
    kind,
    namespace,
    name,
    parents: parents.filter((one) => one !== undefined),
    backends: backends.flat().filter((one) => one !== undefined),
  };
}

/** Reads a backend. @returns undefined for one that gets no requests */
function routeBackend(backend: Reader, namespace: string, path: FieldPath): Backend | undefined {
  const [group, kind] = [backend.optionalString("group") ?? "", backend.optionalString("kind") ?? "Service"];
  if (backend.optionalInteger("weight", 0, 1_000_000) === 0) return undefined;
  return {
    kind: group === "" || kind !== "Service" ? kind : `${kind} of ${group}`,
    namespace: backend.optionalString("namespace") ?? namespace,
    service: backend.string("name"),
    port: backend.optionalInteger("port", 1, 65_535),
    path,
  };
}

function readReferenceGrant(object: Reader): WayObject {
  const { namespace, name } = readNamespacedMetadata(object);
  const spec = object.object("spec");
  const from = spec.all("from", (value, field) => {
    const one = new Reader(value, field);
    return { group: one.string("group"), kind: one.string("kind"), namespace: one.string("namespace") };
  });
  const to = spec.all("to", (value, field) => {
    const one = new Reader(value, field);
    return {
      isService: one.string("group") === "" && one.string("kind") === "Service",
      name: one.optionalString("name"),
    };
  });
  return {
    kind: "ReferenceGrant",
    namespace,
    name,
    from: from.filter(({ group }) => group === GATEWAYS).map(({ kind, namespace: of }) => ({ kind, namespace: of })),
    to: to.filter(({ isService }) => isService).map((one) => one.name || undefined),
  };
}
