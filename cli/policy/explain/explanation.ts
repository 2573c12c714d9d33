import type { Exemption } from "../../../policyd/policy/evaluate/verdict.ts";
import type { ServiceReport, SourceReport } from "../../service/report.ts";

/**
 * Why a connection is allowed or not, as data: what `-o json` prints, and what the words are made of. Addresses are text,
 * names as people call things; null is what does not apply. docs/cli.md describes every field.
 */
export interface Explanation {
  /** In every case; without a port asked about, whether anything at all is. */
  readonly allowed: boolean;
  /** In some cases and not in others. */
  readonly partly: boolean;
  readonly from: EndpointReport;
  readonly to: EndpointReport;
  /** Null where everything is asked about. */
  readonly port: number | null;
  readonly protocol: string | null;
  readonly services: readonly ServiceReport[];
  readonly cases: readonly Case[];
  /** From outside of the cluster the ways through an Ingress or a route; `allowed` is about packets to the destination itself. */
  readonly waysIn: readonly WayInReport[];
  readonly remarks: readonly string[];
}

/** A way by which connections from outside come to a destination through the pods of a controller. */
export interface WayInReport extends Place {
  /** `Ingress shop/web`, `HTTPRoute shop/api`. */
  readonly name: string;
  /** `IngressClass nginx`, `Gateway infra/public`. */
  readonly through: string;
  /** Whether something comes in by it, in some case at least. */
  readonly open: boolean;
  /** In some cases and not in others. */
  readonly partly: boolean;
  /** From outside to the controller. */
  readonly entry: Explanation;
  /** From the controller to the pods, for each port of theirs. */
  readonly onward: readonly Explanation[];
}

/** An end as it was named, and who is behind the name. */
export interface EndpointReport {
  readonly name: string;
  readonly type: "pod" | "workload" | "node" | "service" | "address";
  /** Pods, nodes and addresses, those that were judged; of a Service the endpoints that were found. */
  readonly hosts: readonly string[];
  /** How many there are. */
  readonly count: number;
}

/** Connections with one answer and the same reasons: from each of some hosts to each of others. */
export interface Case {
  readonly allowed: boolean;
  readonly from: readonly string[];
  readonly to: readonly string[];
  readonly families: readonly ("IPv4" | "IPv6")[];
  /** Ports as the destination has them, such as `8080/TCP`, `1-79/TCP`, `all/UDP`, `ICMP`, or `all` alone. */
  readonly connections: readonly string[];
  /** Whose address the destination sees; null where no Service is on the way. */
  readonly source: (SourceReport & { readonly nodes: readonly string[] }) | null;
  /** Why no policy is asked: a Service ends it, or it cannot be sent. */
  readonly stopped: string | null;
  readonly egress: EndReport | null;
  readonly ingress: EndReport | null;
}

/** The verdict of one end's policies. */
export interface EndReport {
  readonly allowed: boolean;
  /** What the policies are asked about where it is not the two ends and their port: `to node/worker-1 port 30080/TCP`. */
  readonly judgedAs: string | null;
  readonly decision: DecisionReport;
  readonly passed: readonly RuleReport[];
  readonly isolatedBy: readonly PolicyReport[];
  readonly nearest: NearestReport | null;
  readonly shadow: ShadowReport | null;
}

/** The answer if the policies in shadow were in force. */
export interface ShadowReport {
  readonly allowed: boolean;
  /** Whether they would deny what no NetworkPolicy denies now. */
  readonly wouldDrop: boolean;
  /** Those that select the end. */
  readonly policies: readonly PolicyReport[];
  /** The rule that would allow it; null where none does. */
  readonly rule: RuleReport | null;
  readonly nearest: NearestReport | null;
}

export type DecisionReport =
  | { readonly type: "rule"; readonly rule: RuleReport }
  | { readonly type: "exempt"; readonly because: Exemption }
  | { readonly type: "isolated" }
  | { readonly type: "default" };

/** Where something is written. */
export interface Place {
  readonly file: string;
  readonly line: number;
}

export interface PolicyReport extends Partial<Place> {
  /** Kind and key, such as `NetworkPolicy shop/web`. */
  readonly policy: string;
}

export interface RuleReport extends PolicyReport {
  /** Within the policy, as `ingress[0].from[1]`. */
  readonly path: string;
  /** Of ClusterNetworkPolicies. */
  readonly tier?: "Admin" | "Baseline";
  readonly priority?: number;
  readonly action?: "Accept" | "Deny" | "Pass";
  readonly name?: string;
  readonly unreadable?: string;
  readonly tiedWith?: readonly string[];
}

export interface NearestReport extends RuleReport {
  readonly failed: readonly { readonly type: string; readonly text: string }[];
}
