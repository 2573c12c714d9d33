import type { Settings } from "../settings.ts";

/** A choice of upstream's tests and the cluster that they run on. */
export interface Suite {
  readonly name: string;
  readonly settings: Settings;
  /** Regular expressions of Ginkgo: a test runs when one of the first matches its title, and none of the second. */
  readonly focus: readonly string[];
  readonly skip: readonly string[];
  /** The number of tests at once. */
  readonly processes: number;
}

/** Groups of [sig-network] that judge a data plane; its other groups test the API server and controllers. */
const DATA_PLANE = [
  String.raw`\[sig-network\] (Services|DNS|EndpointSlice|EndpointSliceMirroring|HostPort|Networking|Conntrack|Proxy|KubeProxy|Traffic Distribution|Topology Hints|Pods|NoSNAT)`,
  String.raw`\[sig-network\].*(Granular Checks|HealthCheckNodePort)`,
] as const;

/** Expressions for tests that cannot run here, each with the reason. */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  SCTP: "this project is tested on kernels without SCTP sockets",
  [String.raw`\[Feature:LoadBalancer\]`]: "needs a cloud's load balancer",
  [String.raw`\[Feature:Networking-IPv4\]|\[Feature:Networking-IPv6\]|\[Feature:Networking-DNS\]`]:
    "needs the Internet",
  [String.raw`\[Feature:Networking-Performance\]|\[Feature:PerformanceDNS\]`]: "measures, and has a benchmark here",
  [String.raw`\[Feature:LocalhostNodePorts\]`]: "node ports on localhost are kube-proxy's, by iptables only",
  [String.raw`\[Feature:KubeProxyNFAcct\]`]: "reads a kernel counter of kube-proxy's",
  [String.raw`\[Disruptive\]`]: "restarts parts of the node by systemd",
};

const IPV4_FIRST: Settings = { nodes: 2, firstFamily: 4, isDualStack: true };
const IPV6_FIRST: Settings = { nodes: 3, firstFamily: 6, isDualStack: true };

/** The suites of the whole run, by their names. */
export const SUITES: readonly Suite[] = [
  { name: "network-4", settings: IPV4_FIRST, focus: DATA_PLANE, skip: Object.keys(LEFT_OUT), processes: 4 },
  { name: "network-6", settings: IPV6_FIRST, focus: DATA_PLANE, skip: Object.keys(LEFT_OUT), processes: 4 },
  { name: "netpol-4", settings: IPV4_FIRST, focus: [String.raw`\[sig-network\] Netpol`], skip: ["SCTP"], processes: 3 },
  { name: "netpol-6", settings: IPV6_FIRST, focus: [String.raw`\[sig-network\] Netpol`], skip: ["SCTP"], processes: 3 },
];

/** A short choice: one or a few tests of each kind. */
export const QUICK: Suite = {
  name: "quick",
  settings: IPV4_FIRST,
  focus: [
    String.raw`\[sig-network\] Services should (serve|be able to|have session affinity|implement)`,
    String.raw`\[sig-network\] (DNS|HostPort|KubeProxy)`,
    String.raw`\[sig-network\] Netpol .*(deny-all|allow ingress|default-deny|egress)`,
  ],
  skip: [...Object.keys(LEFT_OUT), String.raw`\[Slow\]`],
  processes: 4,
};
