import { CLUSTER_DNS, type ClusterDns } from "../../../objects/cluster_dns.ts";
import { judge } from "../../../objects/gate/gate.ts";
import type { Pod, PodPeer } from "../../../objects/model.ts";
import { nameLabel } from "../../../objects/name.ts";
import { selects } from "../../../objects/semantics/policies/selector.ts";

/** A pod of the cluster's DNS, and the port on which it listens. */
export interface DnsServer {
  readonly pod: Pod;
  readonly port: number;
}

const [USUAL, ...OTHERS] = CLUSTER_DNS;

/** The cluster's DNS where files do not have it. */
export const STAND_INS: readonly [DnsServer, ...DnsServer[]] = [standIn(USUAL), ...OTHERS.map(standIn)];

/** Returns whether a peer of other namespaces is for the DNS of a usual cluster. */
export function isForClusterDns({ namespaceSelector, podSelector }: PodPeer): boolean {
  return STAND_INS.some(
    ({ pod: { namespace, labels } }) =>
      namespaceSelector !== undefined &&
      selects(namespaceSelector, nameLabel(namespace)) &&
      (podSelector === undefined || selects(podSelector, labels)),
  );
}

function standIn({ namespace, service, labels, port }: ClusterDns): DnsServer {
  const ports = [
    { name: "dns", protocol: "UDP", containerPort: port },
    { name: "dns-tcp", protocol: "TCP", containerPort: port },
  ];
  const verdict = judge({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name: service, labels },
    spec: { containers: [{ ports }] },
  });
  if (verdict.type !== "accepted" || verdict.object.kind !== "Pod") throw new RangeError("the stand-in is a pod");
  return { pod: verdict.object, port };
}
