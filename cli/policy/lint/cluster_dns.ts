import { judge } from "../../../objects/gate/gate.ts";
import type { Pod, PodPeer } from "../../../objects/model.ts";
import { nameLabel } from "../../../objects/name.ts";
import { DNS_PORT } from "../../../objects/semantics/policies/decide.ts";
import { selects } from "../../../objects/semantics/policies/selector.ts";

/** A pod of the cluster's DNS, and the port on which it listens. */
export interface DnsServer {
  readonly pod: Pod;
  readonly port: number;
}

const OPENSHIFT_DNS_PORT = 5353;

/** The cluster's DNS where files do not have it, with the labels that distributions use. OpenShift has its own. */
export const STAND_INS: readonly [DnsServer, ...DnsServer[]] = [
  standIn("kube-system", "kube-dns", { "k8s-app": "kube-dns" }, DNS_PORT),
  standIn("openshift-dns", "dns-default", { "dns.operator.openshift.io/daemonset-dns": "default" }, OPENSHIFT_DNS_PORT),
];

/** Returns whether a peer of other namespaces is for the DNS of a usual cluster. */
export function isForClusterDns({ namespaceSelector, podSelector }: PodPeer): boolean {
  return STAND_INS.some(
    ({ pod: { namespace, labels } }) =>
      namespaceSelector !== undefined &&
      selects(namespaceSelector, nameLabel(namespace)) &&
      (podSelector === undefined || selects(podSelector, labels)),
  );
}

function standIn(namespace: string, name: string, labels: Readonly<Record<string, string>>, port: number): DnsServer {
  const ports = [
    { name: "dns", protocol: "UDP", containerPort: port },
    { name: "dns-tcp", protocol: "TCP", containerPort: port },
  ];
  const verdict = judge({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name, labels },
    spec: { containers: [{ ports }] },
  });
  if (verdict.type !== "accepted" || verdict.object.kind !== "Pod") throw new RangeError("the stand-in is a pod");
  return { pod: verdict.object, port };
}
