import { FAMILIES } from "../../../../kernel/ip/address.ts";
import type { Prober } from "../../../lab/probe/prober.ts";
import { type LabelChanges, NAMESPACES, PODS } from "../three_by_three.ts";
import { namespaceManifest, type NodeName, type Place, type PodFields, podManifest, type PodPlace } from "./place.ts";
import { PolicyLab, type PolicyLabOptions } from "./policy_lab.ts";
import { PORTS } from "./question.ts";

/**
 * The nodes of the pods. In every row and every column two pods share a node, so each kind of pair exists on one node
 * and across two.
 */
const NODES: Readonly<Record<string, readonly NodeName[]>> = {
  x: ["node1", "node1", "node2"],
  y: ["node1", "node2", "node1"],
  z: ["node2", "node1", "node1"],
};

/** Upstream's nine pods. */
export const NINE_PODS: readonly PodPlace[] = NAMESPACES.flatMap((namespace) =>
  PODS.map((pod, column): PodPlace => ({ key: `${namespace}/${pod}`, node: NODES[namespace]?.[column] ?? "node1" })),
);

const PROTOCOLS = ["tcp", "udp", "sctp"] as const;

/** The names of upstream's ports: serve-80-tcp. */
export const NAMED_PORTS: readonly object[] = PORTS.flatMap((containerPort) =>
  PROTOCOLS.map((protocol) => ({
    name: `serve-${containerPort}-${protocol}`,
    containerPort,
    protocol: protocol.toUpperCase(),
  })),
);

/** A label that every kubelet gives its Node. */
const NODE_LABELS = { "kubernetes.io/os": "linux" };

/** Changes of Pod objects, by their keys. */
export type PodChanges = Readonly<Record<string, PodFields>>;

/** Makes a lab with the nine pods, which serve in every protocol and family, as both outside hosts and the nodes do. */
export async function ninePodLab(
  options: Omit<PolicyLabOptions, "pods">,
  ports: readonly number[] = PORTS,
): Promise<PolicyLab> {
  const lab = await PolicyLab.create({ ...options, pods: NINE_PODS });
  for (const place of lab.places.values()) listenAll(lab.prober, place, ports);
  return lab;
}

/** Makes a place serve every protocol in both families. */
export function listenAll(prober: Prober, { namespace, addresses }: Place, ports: readonly number[] = PORTS): void {
  for (const family of FAMILIES) {
    for (const protocol of PROTOCOLS) {
      for (const port of ports) prober.listen(protocol, { namespace, address: addresses[family], port });
    }
  }
}

/**
 * Returns the objects of the nine pods, their namespaces and the nodes; labels are changed by `namespace` or
 * `namespace/pod`.
 */
export function ninePods(lab: PolicyLab, labels: LabelChanges = {}, changes: PodChanges = {}): readonly object[] {
  return [
    ...lab.nodeManifests({ node1: NODE_LABELS, node2: NODE_LABELS }),
    ...NAMESPACES.map((name) => namespaceManifest(name, { ns: name, ...labels[name] })),
    ...NINE_PODS.map(({ key, node }) =>
      podManifest(lab.place(key), node, {
        ports: NAMED_PORTS,
        ...changes[key],
        labels: { pod: key.slice(-1), ...labels[key], ...changes[key]?.labels },
      }),
    ),
  ];
}
