import type { Labels } from "./model.ts";

/** The DNS of a cluster as a distribution installs it: the name of its Service, and the labels and port of its pods. */
export interface ClusterDns {
  readonly namespace: string;
  readonly service: string;
  readonly labels: Labels;
  readonly port: number;
}

/** The usual one, and that of OpenShift. */
export const CLUSTER_DNS: readonly [ClusterDns, ...ClusterDns[]] = [
  { namespace: "kube-system", service: "kube-dns", labels: { "k8s-app": "kube-dns" }, port: 53 },
  {
    namespace: "openshift-dns",
    service: "dns-default",
    labels: { "dns.operator.openshift.io/daemonset-dns": "default" },
    port: 5353,
  },
];
