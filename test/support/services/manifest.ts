import { type Address, type Family, familyOf, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";

export const SERVICE_PORT = 80;
export const TARGET_PORT = 8080;

/** An object as a cluster stores it. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string } & Readonly<Record<string, unknown>>;
  readonly [field: string]: unknown;
}

/** A port of a Service; `targetPort` is a number, as it stands in its slices. */
export interface ServicePort {
  /** `tcp-80` when absent. */
  readonly name?: string;
  readonly protocol: "TCP" | "UDP" | "SCTP";
  readonly port: number;
  readonly targetPort: number;
  readonly nodePort?: number;
}

/** An endpoint with an address of one family or of both, and the other fields that its slices have. */
export interface ServiceEndpoint extends Readonly<Record<string, unknown>> {
  readonly addresses: Readonly<Partial<Record<Family, Address>>>;
  readonly nodeName?: string;
}

/**
 * Returns a Service and its slices, one of each family.
 *
 * @param key `namespace/name`
 * @param spec further fields of the Service's spec; its `status` is the Service's own
 */
export function serviceObjects(
  key: string,
  clusterIps: readonly string[],
  ports: readonly ServicePort[],
  endpoints: readonly ServiceEndpoint[],
  { status, ...spec }: Readonly<Record<string, unknown>> = {},
): readonly [KubernetesObject, ...KubernetesObject[]] {
  const [namespace = "", name = ""] = key.split("/");
  const named = ports.map((port) => ({ name: `${port.protocol.toLowerCase()}-${port.port}`, ...port }));
  const slices = FAMILIES.map((family) => ({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: `${name}-${family}`, namespace, labels: { "kubernetes.io/service-name": name } },
    addressType: `IPv${family}`,
    ports: named.map((port) => ({ name: port.name, protocol: port.protocol, port: port.targetPort })),
    endpoints: endpoints.flatMap(({ addresses: { [family]: address }, ...rest }) =>
      address === undefined ? [] : [{ addresses: [formatAddress(address)], ...rest }],
    ),
  }));
  const type = ports.some(({ nodePort }) => nodePort !== undefined) ? "NodePort" : "ClusterIP";
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace },
    spec: { clusterIP: clusterIps[0], clusterIPs: clusterIps, ports: named, type, ...spec },
    ...(status === undefined ? {} : { status }),
  };
  return [service, ...slices];
}

/** Returns a file of objects. */
export function listOf(items: readonly unknown[]): string {
  return JSON.stringify({ apiVersion: "v1", kind: "List", items });
}

/** An endpoint of {@link serviceManifest}. */
export interface ManifestEndpoint {
  readonly address: Address;
  readonly nodeName: string;
  readonly conditions?: Readonly<Record<"ready" | "serving" | "terminating", boolean>>;
  readonly hints?: Readonly<Partial<Record<"forZones" | "forNodes", readonly { readonly name: string }[]>>>;
}

/** Returns a Service with a port of each protocol and slices of its endpoints, as a text of manifests. */
export function serviceManifest(
  name: string,
  clusterIps: readonly string[],
  endpoints: readonly ManifestEndpoint[],
  spec: Readonly<Record<string, unknown>> = {},
  nodePort?: number,
): string {
  const ports = (["TCP", "UDP", "SCTP"] as const).map((protocol) => ({
    name: protocol.toLowerCase(),
    protocol,
    port: SERVICE_PORT,
    targetPort: TARGET_PORT,
    ...(nodePort === undefined ? {} : { nodePort }),
  }));
  const ofFamilies = endpoints.map(({ address, ...rest }) => ({
    addresses: { [familyOf(address)]: address },
    ...rest,
  }));
  return serviceObjects(`default/${name}`, clusterIps, ports, ofFamilies, spec)
    .map((object) => `---\n${JSON.stringify(object)}\n`)
    .join("");
}

/** Returns a Node object with its internal addresses, and its zone if it has one. */
export function nodeManifest(name: string, addresses: readonly string[], zone?: string): string {
  const node = {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels: zone === undefined ? {} : { "topology.kubernetes.io/zone": zone } },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  };
  return `---\n${JSON.stringify(node)}\n`;
}
