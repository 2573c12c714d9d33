import type { entries } from "./schema.ts";

/** What docs/configuration.md says of a field, in Markdown. */
export interface FieldDescription {
  readonly meaning: string;
  /** What a field without a default is where it is not given. */
  readonly absent?: string;
}

type Field = Exclude<keyof typeof entries, "markBits"> | "markBits.masquerade" | "markBits.bridged";

/** Of every field; `npm run docs` writes them into docs/configuration.md. */
export const DESCRIPTIONS: Readonly<Record<Field, FieldDescription>> = {
  nodeName: { meaning: "The name of this machine's Node object.", absent: "required" },
  objectsDirectory: {
    meaning: "A directory of files with Kubernetes objects, which is followed instead of an API server.",
  },
  apiServer: {
    meaning: "The address of the API server, such as `https://192.0.2.1:6443`.",
    absent: "which is the kubelet's",
  },
  kubeconfig: {
    meaning: "Whom to ask the API server as, and where it is unless `apiServer` says it.",
    absent: "which is the service account",
  },
  kubeletKubeconfig: {
    meaning: "The kubelet's kubeconfig, of which the address of the API server is read and nothing else.",
    absent: "which is the first of the places where distributions have it",
  },
  serviceAccountDirectory: { meaning: "Where `token` and `ca.crt` of the service account are." },
  socketPath: { meaning: "The unix socket for the plugin, at most 107 bytes." },
  stateDirectory: { meaning: "Where the plugin keeps the records of its attachments (its `runDir`)." },
  logLevel: { meaning: "`error`, `warn`, `info` or `debug`." },
  logFormat: { meaning: "`text`, or `json` for one object a line." },
  tableOwner: {
    meaning:
      "Whether our nftables tables refuse changes by other programs. A saved dump of such a table does not load again.",
  },
  "markBits.masquerade": { meaning: "The bit of the packet mark for what is to be masqueraded." },
  "markBits.bridged": { meaning: "The bit for what may be bridged; another one." },
  bridge: { meaning: "The bridge the pods are on. While policies are enforced a pod on another is refused." },
  podCIDRs: { meaning: "The prefixes of this node's pods, until its Node object says them." },
  serviceCIDRs: {
    meaning:
      "Ranges of Services that the node itself needs a [route](routes.md) for, beside those of ServiceCIDR objects.",
  },
  encapsulation: {
    meaning:
      "When packets go to other nodes' pods by VXLAN: `auto` where a router is in between, `always`, or `never`, where that router knows the pod CIDRs. See [routes](routes.md).",
  },
  installCni: {
    meaning: "Whether the plugin and its configuration are kept [installed](installation.md) on this node.",
  },
  cniSourceDirectory: { meaning: "Where the plugin's executables that belong to this daemon are." },
  cniBinDirectory: { meaning: "Where the runtime looks for plugins." },
  cniConfDirectory: { meaning: "Where the runtime looks for network configurations." },
  cniChain: {
    meaning:
      "Further plugins, such as `portmap` or `tuning`: entries that follow ours [in the list](installation.md#other-plugins-in-the-list).",
  },
  cniPrimary: {
    meaning:
      "The name of a configuration that is to come [before ours](installation.md#a-configuration-that-comes-first), such as `00-multus.conf`.",
  },
  clearNetworkUnavailable: {
    meaning:
      "Whether the daemon, once ready, sets [its Node's condition `NetworkUnavailable`](installation.md#nodes-of-a-cloud) to `False`, " +
      "for which it needs a right.",
  },
  masquerade: { meaning: "Whether pods leave the cluster with [the node's address](#pods-out-of-the-cluster)." },
  nonMasqueradeCIDRs: { meaning: "Where else pods keep their own address: networks that know the way to them." },
  conntrackMaxPerCore: {
    meaning: "For how many connections per processor there is to be room; `0` leaves that as it is.",
  },
  conntrackMin: { meaning: "For how many at least." },
  conntrackEstablishedTimeout: {
    meaning: "For how long at least a silent TCP connection is remembered; `0` leaves it as it is.",
  },
  conntrackCloseWaitTimeout: { meaning: "For how long at least one that a side has closed; `0` leaves it as it is." },
  fragmentMemory: {
    meaning:
      "The mebibytes, for each family, that fragments may take until they are put together, at most a thirty-second of the memory there is. Pods get [shares](#fragments) of it; `0` leaves all as it is.",
  },
  services: {
    meaning:
      "Whether Services are served; with `false`, where kube-proxy goes on doing it, what an earlier daemon had for them goes.",
  },
  nodePortAddresses: {
    meaning:
      "The node's addresses that serve NodePorts: prefixes, or `primary` for the Node object's first of each family.",
    absent: "which is all",
  },
  protectedPorts: {
    meaning:
      "Ports that [no Service and no host port](#addresses-and-ports-that-nobody-takes) takes on the addresses of nodes, beside the daemon's own and the tunnel's.",
  },
  protectedSockets: {
    meaning: "Further addresses with ports that none takes, such as `192.0.2.53:53/UDP`: see there.",
  },
  refuseExternalIPs: {
    meaning:
      "Whether Services' `externalIPs`, by which whoever may write a Service takes traffic to any address, are passed over.",
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
      "Whether policies are enforced; with `false`, for nodes where another program does, the table of an earlier daemon goes.",
  },
  policePodToOwnNode: {
    meaning:
      "Whether NetworkPolicies hold for what a pod sends to its own node, too. ClusterNetworkPolicies always do.",
  },
  nodeLocalDNS: { meaning: "Addresses of the node's own DNS server: no NetworkPolicy keeps pods from its port 53." },
  connectionLimit: {
    meaning:
      "The most connections of a pod, over all of its addresses: those it begins, and those from outside to it. Without it a pod has a share of `nf_conntrack_max` once the table is full; 0 for no limit.",
    absent: "which is a share",
  },
  policyReset: {
    meaning: "Whether what is left of a TCP connection that policies cut is answered by a reset instead of silence.",
  },
  dropLog: { meaning: "Whether what NetworkPolicies drop is logged. What those in shadow would drop always is." },
  dropLogGroup: { meaning: "The nflog group of the drop log; another one where another program reads it." },
  flowLedger: {
    meaning:
      "Whether the connections of this node's pods are counted in a [ledger](guides/flows.md), which `drawbridge flows` reads; with `dropLog` also what policies drop.",
  },
  flowLedgerDirectory: { meaning: "Where the ledger is kept over restarts, in at most 60 MB." },
  minSyncPeriod: {
    meaning:
      "The least time between two changes of the Services' tables: a duration, or [`adaptive`](#when-a-change-of-a-service-is-in-force), which is at most 10 ms while the daemon keeps up.",
  },
  syncPeriod: { meaning: "How often everything is verified; at least `minSyncPeriod` and 100ms." },
  metricsAddress: { meaning: 'Where Prometheus gets the metrics; with `""` nowhere.' },
  endpointMetrics: { meaning: "Whether the metrics tell the connections of each endpoint, a line for each." },
  healthAddress: {
    meaning:
      'Where `/livez`, `/readyz` and, while Services are ours, `/healthz` are served; an unspecified address is both families; with `""` nowhere.',
    absent: "which is `0.0.0.0:10256`, with `services: false` `127.0.0.1:9874`",
  },
};
