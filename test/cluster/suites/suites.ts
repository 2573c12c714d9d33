import type { Materials } from "../cluster.ts";
import type { Settings } from "../settings.ts";
import type { TestResult } from "./result.ts";
import type { RunningCluster } from "../state.ts";

interface OfEverySuite {
  readonly name: string;
  /** The cluster that its tests run on. */
  readonly settings: Settings;
  /** A name that selects several suites. */
  readonly group?: string;
  /**
   * Whether it runs at the same time as others on its cluster: it mostly waits, selects only its own pods, and needs no
   * DNS names.
   */
  readonly isBeside?: true;
  /** Installs the add-on; absent for the way of docs/guides/kubeadm.md. */
  readonly install?: (cluster: RunningCluster, materials: Materials, say: (line: string) => void) => Promise<void>;
}

/** A choice of the tests in Kubernetes' e2e.test. */
export interface GinkgoSuite extends OfEverySuite {
  readonly runner: "ginkgo";
  /** Regular expressions of Ginkgo: a test belongs to the suite when one of them matches its title. */
  readonly focus: readonly string[];
  /** Expressions for matching tests that belong to another suite. */
  readonly elsewhere?: readonly string[];
  /** Expressions for tests of the suite that do not run, each with the reason. They count as skipped. */
  readonly omitted: Readonly<Record<string, string>>;
  /** The number of tests at once. */
  readonly processes: number;
}

/** The conformance tests of network-policy-api, with every feature. */
export interface ConformanceSuite extends OfEverySuite {
  readonly runner: "conformance";
}

/** A part of cyclonus' cases, by their tags. */
export interface CyclonusSuite extends OfEverySuite {
  readonly runner: "cyclonus";
  /** A case belongs to the suite when it has one of these tags, or when there are none here. */
  readonly include: readonly string[];
  /** A case with one of these tags does not belong to it. */
  readonly exclude: readonly string[];
  /** The protocols that its pods serve on each port, and that are probed. */
  readonly protocols: readonly ("TCP" | "UDP" | "SCTP")[];
}

/** Pods under policies with domain names, which ask the cluster's DNS. */
export interface DomainNamesSuite extends OfEverySuite {
  readonly runner: "domain-names";
}

/** Tests, most of them upstream's, and the cluster that they run on. */
export type Suite = GinkgoSuite | ConformanceSuite | CyclonusSuite | DomainNamesSuite;

/** The only tests of SCTP that send any. */
const NO_SCTP = { [String.raw`\[Feature:SCTPConnectivity\]`]: "this kernel may have no SCTP sockets" } as const;

/** Tests that cannot run on this cluster, or that test something that Drawbridge does not have. */
export const OMITTED: Readonly<Record<string, string>> = {
  ...NO_SCTP,
  [String.raw`\[Feature:LoadBalancer\]`]: "needs a cloud's load balancer",
  [String.raw`\[Feature:Networking-Performance\]|\[Feature:PerformanceDNS\]`]:
    "measures and judges nothing; the benchmarks are docs/performance.md's",
  [String.raw`\[Feature:LocalhostNodePorts\]`]:
    "asks for node ports on 127.0.0.1, which kube-proxy has only in iptables mode",
  [String.raw`\[Feature:KubeProxyNFAcct\]`]: "reads a counter of nfacct that only kube-proxy keeps",
  [String.raw`\[Disruptive\]`]: "restarts parts of the node by SSH and systemd",
};

const IPV4_FIRST: Settings = { nodes: 2, firstFamily: 4, isDualStack: true, containerd: 1 };
const IPV6_FIRST: Settings = { nodes: 3, firstFamily: 6, isDualStack: true, containerd: 1 };

const ALL_NETPOL = [String.raw`\[sig-network\] Netpol`] as const;
const NETWORK = {
  runner: "ginkgo",
  focus: [String.raw`\[sig-network\]`],
  elsewhere: ALL_NETPOL,
  omitted: OMITTED,
  processes: 4,
} as const;
const NETPOL = { runner: "ginkgo", focus: ALL_NETPOL, omitted: NO_SCTP, processes: 4 } as const;

const CONFORMANCE = { runner: "conformance", group: "network-policy-api", isBeside: true } as const;

/** The parts together have every case once. SCTP would make each probe of the others half as long again. */
const CYCLONUS = { runner: "cyclonus", group: "cyclonus", settings: IPV4_FIRST, protocols: ["TCP", "UDP"] } as const;

/** The suites of the whole run, by their names. Those with the same settings share a cluster. */
export const SUITES: readonly Suite[] = [
  { name: "domain-names", settings: IPV4_FIRST, runner: "domain-names" },
  { name: "network-policy-api-4", settings: IPV4_FIRST, ...CONFORMANCE },
  {
    ...CYCLONUS,
    name: "cyclonus-rules",
    include: [],
    exclude: ["sctp", "multi-peer", "peer-pods", "peer-ipblock", "port"],
  },
  {
    ...CYCLONUS,
    name: "cyclonus-ports",
    include: ["port"],
    exclude: ["sctp", "multi-peer", "peer-pods", "peer-ipblock"],
  },
  { ...CYCLONUS, name: "cyclonus-peers", include: ["peer-pods", "peer-ipblock"], exclude: ["sctp", "multi-peer"] },
  { ...CYCLONUS, name: "cyclonus-two-peers", include: ["multi-peer"], exclude: ["sctp"] },
  { ...CYCLONUS, name: "cyclonus-sctp", include: ["sctp"], exclude: [], protocols: ["TCP", "UDP", "SCTP"] },
  { name: "netpol-4", settings: IPV4_FIRST, ...NETPOL },
  { name: "network-4", settings: IPV4_FIRST, ...NETWORK },
  { name: "network-policy-api-6", settings: IPV6_FIRST, ...CONFORMANCE },
  { name: "netpol-6", settings: IPV6_FIRST, ...NETPOL },
  { name: "network-6", settings: IPV6_FIRST, ...NETWORK },
];

/** A short choice: one or a few tests of each kind. */
export const QUICK: GinkgoSuite = {
  runner: "ginkgo",
  name: "quick",
  settings: IPV4_FIRST,
  focus: [
    String.raw`\[sig-network\] Services should (serve|be able to|have session affinity|implement)`,
    String.raw`\[sig-network\] (DNS|HostPort|KubeProxy)`,
    String.raw`\[sig-network\] Netpol .*(deny-all|allow ingress|default-deny|egress)`,
  ],
  omitted: {
    ...NO_SCTP,
    [String.raw`\[Feature:KubeProxyNFAcct\]`]: "reads a counter of nfacct that only kube-proxy keeps",
    [String.raw`\[Slow\]`]: "takes long; the whole suites have it",
  },
  processes: 4,
};

/** Returns a result for each of these tests that the suite omits. */
export function skippedByChoice(
  { omitted }: Pick<GinkgoSuite, "omitted">,
  titles: readonly string[],
): readonly TestResult[] {
  const reasons = Object.entries(omitted).map(([text, reason]) => ({ expression: new RegExp(text), reason }));
  return titles.flatMap((title) => {
    const found = reasons.find(({ expression }) => expression.test(title));
    return found === undefined ? [] : [{ title, state: "skipped", message: found.reason, duration: 0 } as const];
  });
}
