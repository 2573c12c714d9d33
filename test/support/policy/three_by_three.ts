import type { Protocol } from "../../../objects/model.ts";

/** Upstream's model: pods a, b and c in each of the namespaces x, y and z, which serve 80 and 81 in every protocol. */
export const NAMESPACES = ["x", "y", "z"] as const;
export const PODS = ["a", "b", "c"] as const;
export const KEYS: readonly string[] = NAMESPACES.flatMap((namespace) => PODS.map((pod) => `${namespace}/${pod}`));

const PROTOCOLS: readonly Protocol[] = ["TCP", "UDP", "SCTP"];

/** Changes of the model's labels, by `namespace` or `namespace/pod`. */
export type LabelChanges = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Returns the manifests of namespaces, nodes and pods; all pods of a namespace are on one node. */
export function threeByThree(changes: LabelChanges = {}): readonly object[] {
  return NAMESPACES.flatMap((namespace, row) => [
    {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: namespace, labels: { ns: namespace, ...changes[namespace] } },
    },
    {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: `node-${namespace}` },
      status: { addresses: [{ type: "InternalIP", address: `10.240.0.${row + 1}` }] },
    },
    ...PODS.map((pod, column) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: pod, namespace, labels: { pod, ...changes[`${namespace}/${pod}`] } },
      spec: { nodeName: `node-${namespace}`, containers: [{ name: "server", ports: namedPorts() }] },
      status: {
        phase: "Running",
        podIPs: [{ ip: addressOf(`${namespace}/${pod}`) }, { ip: `fd00:244:${row + 1}::${column + 1}` }],
      },
    })),
  ]);
}

/** Returns a pod's IPv4 address. */
export function addressOf(key: string): string {
  const [namespace, pod] = key.split("/");
  return `10.244.${NAMESPACES.findIndex((one) => one === namespace) + 1}.${PODS.findIndex((one) => one === pod) + 1}`;
}

function namedPorts(): readonly object[] {
  return [80, 81].flatMap((containerPort) =>
    PROTOCOLS.map((protocol) => ({
      name: `serve-${containerPort}-${protocol.toLowerCase()}`,
      containerPort,
      protocol,
    })),
  );
}
