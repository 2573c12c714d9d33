import type { Protocol } from "../../../../objects/model.ts";
import { type Place, textsOf } from "./place.ts";

/** The fields of a Service's spec other than its addresses and ports. */
export type ServiceSpec = Readonly<Record<string, unknown>>;

export interface ServicePort {
  readonly protocol: Protocol;
  readonly port: number;
  readonly targetPort: number;
  readonly nodePort?: number;
  /** `tcp-80` when absent. */
  readonly name?: string;
}

/** An endpoint and its node. */
export interface Backend {
  readonly place: Place;
  readonly nodeName: string;
}

/** Returns a Service and its slices, one of each family. */
export function service(
  key: string,
  clusterIps: readonly [string, string],
  ports: readonly ServicePort[],
  backends: readonly Backend[],
  spec: ServiceSpec = {},
): readonly object[] {
  const [namespace = "", name = ""] = key.split("/");
  const named = ports.map((port) => ({ name: `${port.protocol.toLowerCase()}-${port.port}`, ...port }));
  const slices = ([0, 1] as const).map((family) => ({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: `${name}-${family}`, namespace, labels: { "kubernetes.io/service-name": name } },
    addressType: ["IPv4", "IPv6"][family],
    ports: named.map((port) => ({ name: port.name, protocol: port.protocol, port: port.targetPort })),
    endpoints: backends.map(({ place, nodeName }) => ({ addresses: [textsOf(place)[family]], nodeName })),
  }));
  const hasNodePort = ports.some(({ nodePort }) => nodePort !== undefined);
  return [
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name, namespace },
      spec: {
        clusterIP: clusterIps[0],
        clusterIPs: clusterIps,
        ports: named,
        type: hasNodePort ? "NodePort" : "ClusterIP",
        ...spec,
      },
    },
    ...slices,
  ];
}
