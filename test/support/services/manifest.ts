import { type Address, familyOf, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";

export const SERVICE_PORT = 80;
export const TARGET_PORT = 8080;

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
  const ports = ["TCP", "UDP", "SCTP"].map((protocol) => ({
    name: protocol.toLowerCase(),
    protocol,
    port: SERVICE_PORT,
    ...(nodePort === undefined ? {} : { nodePort }),
  }));
  const slices = FAMILIES.map((family) => ({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: `${name}-${family}`, labels: { "kubernetes.io/service-name": name } },
    addressType: `IPv${family}`,
    ports: ports.map((port) => ({ name: port.name, protocol: port.protocol, port: TARGET_PORT })),
    endpoints: endpoints
      .filter(({ address }) => familyOf(address) === family)
      .map(({ address, ...rest }) => ({ addresses: [formatAddress(address)], ...rest })),
  }));
  const { status, ...fields } = spec;
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: { clusterIPs: clusterIps, ports, ...(nodePort === undefined ? {} : { type: "NodePort" }), ...fields },
    ...(status === undefined ? {} : { status }),
  };
  return [service, ...slices].map((object) => `---\n${JSON.stringify(object)}\n`).join("");
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
