import { type Address, type Family, formatAddress, parseAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import { podObject } from "../first_packet/coming_pod.ts";
import type { WiredNode } from "../../../lab/topology.ts";
import { nodeManifest, serviceManifest } from "../../services/manifest.ts";
import { labelled, networkPolicy } from "../manifest.ts";

/** Two clients and a server, each with its name as the label `app`. */
export const CUTS_PODS = ["client", "bystander", "server"] as const;
export type CutsPod = (typeof CUTS_PODS)[number];

/** The rules of a policy that allows everything, or nothing. */
export const ALL: readonly object[] = [{}];
export const NOTHING: readonly object[] = [];

/** The cluster IPs of the server's Service. */
export const CLUSTER_IPS: Readonly<Record<Family, Address>> = {
  4: parseAddress("10.96.0.10"),
  6: parseAddress("fd00:96::a"),
};

/** A pod with its node, which is node1 by default. */
interface PlacedPod {
  readonly addresses: Readonly<Record<Family, Address>>;
  readonly nodeName?: string;
}

/** The pods of a cluster, with or without a bystander. */
type PlacedPods = Readonly<Record<"client" | "server", PlacedPod> & Partial<Record<"bystander", PlacedPod>>>;

/**
 * Returns the objects of a cluster of these nodes, where policies isolate the client for egress and the server for
 * ingress.
 */
export function cutsWorld(
  pods: PlacedPods,
  nodes: readonly Pick<WiredNode, "node" | "addresses">[],
  { egress, ingress }: { readonly egress: readonly object[]; readonly ingress: readonly object[] },
): string {
  const policy = (pod: CutsPod, spec: object): object =>
    networkPolicy("default", { podSelector: labelled({ app: pod }), ...spec }, pod);
  const objects = [
    ...CUTS_PODS.flatMap((name) => {
      const pod = pods[name];
      return pod === undefined ? [] : [podObject("default", name, { labels: { app: name }, ...pod })];
    }),
    policy("client", { policyTypes: ["Egress"], egress }),
    policy("server", { policyTypes: ["Ingress"], ingress }),
  ];
  const { addresses, nodeName = "node1" } = pods.server;
  const endpoints = FAMILIES.map((family) => ({ address: addresses[family], nodeName }));
  return [
    serviceManifest("pushing", Object.values(CLUSTER_IPS).map(formatAddress), endpoints),
    ...nodes.map(({ node, addresses: own }) => nodeManifest(node.name, own.map(formatAddress))),
    ...objects.map((object) => `---\n${JSON.stringify(object)}\n`),
  ].join("");
}
