import type { Address, Family } from "../../../../kernel/ip/address.ts";
import { formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { podObject } from "../first_packet/coming_pod.ts";
import { nodeManifest, serviceManifest } from "../../services/manifest.ts";

/** Two pods that ask and one that is asked, each with its name as the label `app`. */
export const CUTS_PODS = ["client", "bystander", "server"] as const;
export type CutsPod = (typeof CUTS_PODS)[number];

/** Rules of a policy: everything, or nothing. */
export const ALL: readonly object[] = [{}];
export const NOTHING: readonly object[] = [];

/** Of the server's Service. */
export const CLUSTER_IPS: Readonly<Record<Family, Address>> = {
  4: parseAddress("10.96.0.10"),
  6: parseAddress("fd00:96::a"),
};

const FAMILIES = [4, 6] as const;

/** The objects of a cluster of one node, where policies isolate what the client sends and what the server receives. */
export function cutsWorld(
  pods: Readonly<Record<CutsPod, { readonly addresses: Readonly<Record<Family, Address>> }>>,
  nodeAddresses: readonly Address[],
  { egress, ingress }: { readonly egress: readonly object[]; readonly ingress: readonly object[] },
): string {
  const policy = (pod: CutsPod, spec: object): object => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: pod, namespace: "default" },
    spec: { podSelector: { matchLabels: { app: pod } }, ...spec },
  });
  const objects = [
    ...CUTS_PODS.map((name) => podObject("default", name, { labels: { app: name }, addresses: pods[name].addresses })),
    policy("client", { policyTypes: ["Egress"], egress }),
    policy("server", { policyTypes: ["Ingress"], ingress }),
  ];
  const endpoints = FAMILIES.map((family) => ({ address: pods.server.addresses[family], nodeName: "node1" }));
  return [
    serviceManifest("pushing", Object.values(CLUSTER_IPS).map(formatAddress), endpoints),
    nodeManifest("node1", nodeAddresses.map(formatAddress)),
    ...objects.map((object) => `---\n${JSON.stringify(object)}\n`),
  ].join("");
}
