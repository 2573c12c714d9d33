import { matchesDomain } from "../../../objects/domain_name.ts";
import { DIRECTIONS } from "../../../objects/semantics/policies/flow.ts";
import { isShadow } from "../../../objects/shadow_annotation.ts";
import { MOST_NAMES, type ReportedPolicy } from "../../../policyd/policies/status/policy_report.ts";
import { namesIn } from "../domain_names.ts";
import type { PodNames } from "../dry_run/effect.ts";
import type { Policy } from "../policy_parts.ts";

/** The report of a node about its policies. */
export interface NodeReport {
  readonly node: string;
  /** By {@link policyId}. */
  readonly policies: ReadonlyMap<string, ReportedPolicy>;
}

/** A rule by its index in the policy's list. */
export interface RuleCount {
  readonly direction: "egress" | "ingress";
  readonly rule: number;
  /** On all nodes; undefined where none is known and a node with the policy's pods does not report the rule. */
  readonly packets: number | undefined;
}

/** The state of a policy on all nodes. */
export interface PolicyStatus {
  readonly kind: Policy["kind"];
  readonly key: string;
  readonly generation: number;
  readonly isShadow: boolean;
  readonly selects: PodNames;
  readonly nodes: number;
  /** Nodes on which another generation is in force, or none. */
  readonly missing: readonly { readonly node: string; readonly inForce: number | undefined }[];
  /** When the last node put it in force, in milliseconds since 1970; undefined while one is missing. */
  readonly since: number | undefined;
  readonly rules: readonly RuleCount[];
  /** The addresses that pods know by its domain names, as far as nodes report them. */
  readonly names: readonly (ReportedPolicy["names"][number] & { readonly node: string })[];
  /** Its domain names by which no pod knows an address; none where a node's report may be cut. */
  readonly unknownNames: readonly string[];
  /** Why nodes do not have it in force as written, each reason once. */
  readonly problems: readonly string[];
}

/** Returns the name of a policy in reports. */
export function policyId({ kind, key }: Pick<Policy, "kind" | "key">): string {
  return `${kind} ${key}`;
}

/**
 * Returns the status of a policy.
 *
 * @param selects the pods that it selects
 * @param nodes the nodes of these pods: one without a report does not have the policy in force
 */
export function policyStatus(
  policy: Policy,
  selects: PodNames,
  nodes: ReadonlySet<string>,
  reports: readonly NodeReport[],
): PolicyStatus {
  const { kind, key, generation } = policy;
  const id = policyId(policy);
  const reportOf = new Map(reports.map(({ node, policies }) => [node, policies.get(id)]));
  const found = [...new Set([...reportOf.keys(), ...nodes])].map((node) => ({ node, reported: reportOf.get(node) }));
  const isTried = kind === "NetworkPolicy" && isShadow(policy);
  const isThere = (one: ReportedPolicy | undefined): boolean =>
    one?.inForce === generation && one.state !== "off" && (one.state === "shadow") === isTried;
  const missing = found.filter(({ reported }) => !isThere(reported));
  const names = found.flatMap(({ node, reported }) => (reported?.names ?? []).map((one) => ({ ...one, node })));
  const times = found.map(({ reported }) => reported?.since ?? 0);
  return {
    kind,
    key,
    generation,
    isShadow: isTried,
    selects,
    nodes: found.length,
    missing: missing.map(({ node, reported }) => ({ node, inForce: reported?.inForce })),
    since: missing.length === 0 && times.length > 0 ? Math.max(...times) : undefined,
    rules: ruleCounts(policy, nodes, found),
    names,
    unknownNames: found.some(({ reported }) => (reported?.names.length ?? 0) >= MOST_NAMES)
      ? []
      : namesIn([policy]).filter((pattern) => !names.some(({ name }) => matchesDomain(pattern, name))),
    problems: [...new Set(found.flatMap(({ reported }) => reported?.problems ?? []))],
  };
}

/** Returns all rules of the policy's own lists. */
function ruleCounts(
  policy: Policy,
  nodes: ReadonlySet<string>,
  found: readonly { readonly node: string; readonly reported: ReportedPolicy | undefined }[],
): readonly RuleCount[] {
  const reports = found.map(({ node, reported }) => ({
    hasPods: nodes.has(node),
    packets: new Map(reported?.rules.map((one) => [`${one.direction} ${one.rule}`, one.packets])),
  }));
  return DIRECTIONS.flatMap((direction) =>
    policy[direction].map(({ index: rule }) => {
      const key = `${direction} ${rule}`;
      const sum = reports.reduce((total, { packets }) => total + (packets.get(key) ?? 0), 0);
      const isKnown = sum > 0 || reports.every(({ hasPods, packets }) => !hasPods || packets.has(key));
      return { direction, rule, packets: isKnown ? sum : undefined };
    }),
  );
}
