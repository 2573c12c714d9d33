import type { entries } from "./schema.ts";

/** The description of a field in docs/configuration.md, in Markdown. */
export interface FieldDescription {
  readonly meaning: string;
  /** The behaviour when a field without a default is absent. */
  readonly absent?: string;
}

type Field = Exclude<keyof typeof entries, "markBits"> | "markBits.masquerade" | "markBits.bridged";

/** The descriptions of all fields; `npm run docs` writes them into docs/configuration.md. */
export const DESCRIPTIONS: Readonly<Record<Field, FieldDescription>> = {
  nodeName: { meaning: "The name of this machine's Node object.", absent: "required" },
  objectsDirectory: {
    meaning: "A directory of files with Kubernetes objects, which is watched instead of an API server.",
  },
  apiServer: {
    meaning: "The address of the API server, such as `https://192.0.2.1:6443`.",
    absent: "which is the kubelet's",
  },
  kubeconfig: {
    meaning: "The kubeconfig with the credentials for the API server, and its address unless `apiServer` gives it.",
    absent: "which is the service account",
  },
  kubeletKubeconfig: {
    meaning: "The kubelet's kubeconfig, from which only the address of the API server is read.",
    absent: "which is the first that exists of the places that distributions use",
  },
  serviceAccountDirectory: { meaning: "The directory with `token` and `ca.crt` of the service account." },
  socketPath: { meaning: "The unix socket for the plugin, at most 107 bytes." },
  stateDirectory: { meaning: "The directory of the plugin's attachment records (its `runDir`)." },
  logLevel: { meaning: "`error`, `warn`, `info` or `debug`." },
  logFormat: { meaning: "`text`, or `json` for one object a line." },
  tableOwner: {
    meaning:
      "Whether our nftables tables refuse changes by other programs. A saved dump of such a table does not load again.",
  },
  "markBits.masquerade": { meaning: "The bit of the packet mark for packets that are masqueraded." },
  "markBits.bridged": { meaning: "The bit for packets that may be bridged, different from the other one." },
  bridge: {
    meaning: "The bridge that pods are attached to. While policies are enforced, a pod on another bridge is refused.",
  },
  podCIDRs: { meaning: "The prefixes of this node's pods while its Node object has none." },
  serviceCIDRs: {
    meaning:
      "Ranges of Services to which the node itself needs a [route](routes.md), in addition to those of ServiceCIDR objects.",
  },
  encapsulation: {
    meaning:
      "When packets to other nodes' pods use VXLAN: `auto` where a router is in between, `always`, or `never`, where that router knows the pod CIDRs. See [routes](routes.md).",
  },
  installCni: {
    meaning: "Whether the daemon keeps the plugin and its configuration [installed](installation.md) on this node.",
  },
  cniSourceDirectory: { meaning: "The directory with the plugin's executable of this daemon's version." },
  cniBinDirectory: { meaning: "The directory in which the runtime looks for plugins." },
  cniConfDirectory: { meaning: "The directory in which the runtime looks for network configurations." },
  cniChain: {
    meaning:
      "Further plugins, such as `portmap` or `tuning`: entries that follow ours [in the list](installation.md#other-plugins-in-the-list).",
  },
  cniPrimary: {
    meaning:
      "The name of a configuration that should come [before ours](installation.md#a-configuration-that-comes-first), such as `00-multus.conf`.",
  },
  clearNetworkUnavailable: {
    meaning:
      "Whether the daemon, once ready, sets [its Node's condition `NetworkUnavailable`](installation.md#nodes-of-a-cloud) to `False`, " +
      "for which it needs a right.",
  },
  masquerade: { meaning: "Whether pods leave the cluster with [the node's address](#pods-out-of-the-cluster)." },
  nonMasqueradeCIDRs: {
    meaning: "Further networks where pods keep their own address, because these networks have a route to pods.",
  },
  conntrackMaxPerCore: {
    meaning: "The least room in the conntrack table, in connections per processor; `0` leaves the size unchanged.",
  },
  conntrackMin: { meaning: "The least room in total, however few processors there are." },
  conntrackEstablishedTimeout: {
    meaning: "How long an idle TCP connection is remembered, at least; `0` leaves the timeout unchanged.",
  },
  conntrackCloseWaitTimeout: {
    meaning: "The same for a connection that one side has closed; `0` leaves the timeout unchanged.",
  },
  fragmentMemory: {
    meaning:
      "The mebibytes, for each family, that fragments may take until reassembly, at most a thirty-second of the machine's memory. Pods get [shares](#fragments) of it; `0` leaves the settings unchanged.",
  },
  services: {
    meaning:
      "Whether Services are served; `false`, for nodes where kube-proxy serves them, also removes an earlier daemon's rules for them.",
  },
  nodePortAddresses: {
    meaning:
      "The node's addresses that serve NodePorts: prefixes, or `primary` for the Node object's first of each family.",
    absent: "which is all",
  },
  protectedPorts: {
    meaning:
      "Ports that [no Service and no host port](#addresses-and-ports-that-nobody-takes) gets on the addresses of nodes, in addition to the daemon's own and the tunnel's.",
  },
  protectedSockets: {
    meaning: "Further addresses with ports that no Service gets, such as `192.0.2.53:53/UDP`; see `protectedPorts`.",
  },
  externalIPsTakePorts: {
    meaning:
      "Whether a Service takes ports of the node's own addresses by `externalIPs` also from programs and host ports that had them before, as with kube-proxy.",
  },
  refuseExternalIPs: {
    meaning:
      "Whether Services' `externalIPs` are ignored, with which an author of a Service can take the traffic to any address.",
  },
  tcpReset: {
    meaning: "Whether TCP connections to Services without endpoints are refused by a reset instead of an ICMP error.",
  },
  dropInvalid: {
    meaning:
      "Whether packets that connection tracking calls invalid are dropped where they concern Services or come from local pods.",
  },
  policies: {
    meaning:
      "Whether policies are enforced; `false`, for nodes where another program does it, also removes an earlier daemon's table.",
  },
  policePodToOwnNode: {
    meaning:
      "Whether NetworkPolicies also apply to packets from a pod to its own node. ClusterNetworkPolicies always do.",
  },
  nodeLocalDNS: { meaning: "Addresses of the node's own DNS server: no NetworkPolicy keeps pods from its port 53." },
  dnsServers: {
    meaning:
      "Addresses of further DNS servers whose answers count for policies with domain names, beside the cluster's own and `nodeLocalDNS`.",
  },
  answerLogGroup: {
    meaning:
      "The nflog group by which the daemon reads DNS answers to pods whose policies have domain names; choose another one if another program reads this group.",
  },
  connectionLimit: {
    meaning:
      "The most connections of a pod over all of its addresses, both those that it opens and those from outside to it; `0` for no limit. When absent, a pod gets a share of `nf_conntrack_max` once the table is full.",
    absent: "which is a share",
  },
  policyReset: {
    meaning:
      "Whether further packets of a TCP connection that policies cut are answered by a reset instead of silence.",
  },
  dropLog: {
    meaning:
      "Whether packets that NetworkPolicies drop are logged. Packets that shadow policies would drop are always logged.",
  },
  dropLogGroup: { meaning: "The nflog group of the drop log; choose another one if another program reads this group." },
  flowLedger: {
    meaning:
      "Whether the connections of this node's pods are counted in a [ledger](guides/flows.md), which `drawbridge flows` reads; with `dropLog` also what policies drop.",
  },
  flowLedgerDirectory: { meaning: "The directory that keeps the ledger across restarts, with at most 60 MB." },
  minSyncPeriod: {
    meaning:
      "The least time between two changes of the Services' tables: a duration, or [`adaptive`](#when-a-change-of-a-service-is-in-force), which is at most 10 ms while the daemon keeps up.",
  },
  syncPeriod: { meaning: "How often everything is resynced; at least `minSyncPeriod` and 100ms." },
  metricsAddress: { meaning: 'The address at which Prometheus gets the metrics; `""` turns them off.' },
  endpointMetrics: { meaning: "Whether the metrics include the connections of each endpoint, a line for each." },
  healthAddress: {
    meaning:
      'The address of `/livez`, `/readyz` and, if `services` is true, `/healthz`; an unspecified address means both families, and `""` turns them off.',
    absent: "which is `0.0.0.0:10256`, with `services: false` `127.0.0.1:9874`",
  },
};
