import type { End, HostsEnd } from "../../cluster/find_end.ts";
import type { Traffic } from "../../../objects/semantics/policies/flow.ts";
import type { Exemption } from "../../../objects/semantics/policies/verdict.ts";
import type { ServiceReport, SourceReport } from "./service_report.ts";

/** A connection in question; without traffic, everything between its ends. */
export interface ExplainQuestion {
  readonly from: HostsEnd;
  readonly to: End;
  readonly traffic: Traffic | undefined;
}

/**
 * Why a connection is allowed or denied, as data: the content of `-o json`, and the source of the words. Addresses are
 * text, names are as people write them, and null is what does not apply. docs/cli.md describes every field.
 */
export interface Explanation {
  /** Allowed in every case; for a question without a port, whether anything at all is allowed. */
  readonly allowed: boolean;
  /** Allowed in some cases but not in others. */
  readonly partly: boolean;
  readonly from: EndpointReport;
  readonly to: EndpointReport;
  /** Null for a question about everything. */
  readonly port: number | null;
  readonly protocol: string | null;
  readonly services: readonly ServiceReport[];
  readonly cases: readonly Case[];
  /** From outside, the ways through Ingresses and routes; `allowed` is only about packets sent to the destination. */
  readonly waysIn: readonly WayInReport[];
  readonly remarks: readonly string[];
  /** The domain names of which it depends whether a denied case is allowed, since DNS may give the address for them. */
  readonly names?: readonly string[];
  /** The missing parts of the input without which there is no answer. */
  readonly unknown?: readonly string[];
}

export type Answer = "allowed" | "denied in part" | "denied" | "depends on DNS" | "not known";

/** Returns the answer in words. It is for all cases, so one that is not known makes the answer unknown. */
export function answerOf({ allowed, partly, names, unknown }: Explanation): Answer {
  if (allowed) return "allowed";
  if (unknown !== undefined) return "not known";
  if (names !== undefined) return "depends on DNS";
  return partly ? "denied in part" : "denied";
}

/** Returns whether an explanation says what the question asks. */
export function isAnswer(answer: Answer): boolean {
  return answer !== "depends on DNS" && answer !== "not known";
}

/** A way by which connections from outside reach a destination through the pods of a controller. */
export interface WayInReport extends Place {
  /** `Ingress shop/web`, `HTTPRoute shop/api`. */
  readonly name: string;
  /** `IngressClass nginx`, `Gateway infra/public`. */
  readonly through: string;
  /** Whether the way lets something in, in at least one case. */
  readonly open: boolean;
  /** Open in some cases but not in others. */
  readonly partly: boolean;
  /** Only where it is not known whether it is open. */
  readonly unknown?: true;
  /** From outside to the controller. */
  readonly entry: Explanation;
  /** From the controller to the pods, for each of their ports. */
  readonly onward: readonly Explanation[];
}

/** An end as it was named, and the hosts that the name stands for. */
export interface EndpointReport {
  readonly name: string;
  readonly type: End["type"];
  /** The pods, nodes and addresses that were evaluated; for a Service, the endpoints that were found. */
  readonly hosts: readonly string[];
  /** The number of hosts in total. */
  readonly count: number;
}

/** Connections with equal answers and reasons, from each of some hosts to each of others. */
export interface Case {
  readonly allowed: boolean;
  readonly from: readonly string[];
  readonly to: readonly string[];
  readonly families: readonly ("IPv4" | "IPv6")[];
  /** Ports as the destination has them, such as `8080/TCP`, `1-79/TCP`, `all/UDP`, `ICMP`, or only `all`. */
  readonly connections: readonly string[];
  /** The source address that the destination sees; null where no Service is on the way. */
  readonly source: (SourceReport & { readonly nodes: readonly string[] }) | null;
  /** Why no policy is evaluated: a Service ends the connection, or it cannot be sent. */
  readonly stopped: string | null;
  /** Only where the input does not show whether it is allowed: `stopped` says what is missing. */
  readonly unknown?: true;
  readonly egress: EndReport | null;
  readonly ingress: EndReport | null;
}

/** The verdict of one end's policies. */
export interface EndReport {
  readonly allowed: boolean;
  /** The question that policies answer, if not about the two ends and their port: `to node/worker-1 port 30080/TCP`. */
  readonly judgedAs: string | null;
  readonly decision: DecisionReport;
  readonly passed: readonly RuleReport[];
  readonly isolatedBy: readonly PolicyReport[];
  readonly nearest: NearestReport | null;
  readonly shadow: ShadowReport | null;
}

/** The verdict if the policies in shadow were in force. */
export interface ShadowReport {
  readonly allowed: boolean;
  /** Whether they would deny what no NetworkPolicy denies now. */
  readonly wouldDrop: boolean;
  /** The policies in shadow that select the end. */
  readonly policies: readonly PolicyReport[];
  /** The rule that would allow it; null without one. */
  readonly rule: RuleReport | null;
  readonly nearest: NearestReport | null;
}

export type DecisionReport =
  | { readonly type: "rule"; readonly rule: RuleReport }
  | { readonly type: "exempt"; readonly because: Exemption }
  | { readonly type: "isolated" }
  | { readonly type: "default" };

/** The place of something in the files. */
export interface Place {
  readonly file: string;
  readonly line: number;
}

export interface PolicyReport extends Partial<Place> {
  /** Kind and key, such as `NetworkPolicy shop/web`. */
  readonly policy: string;
}

export interface RuleReport extends PolicyReport {
  /** The path within the policy, such as `ingress[0].from[1]`, or that of the annotation that adds the rule. */
  readonly path: string;
  /** Only for ClusterNetworkPolicies. */
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
