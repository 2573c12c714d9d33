import type { DropLogCounts } from "../policies/drop_log/drop_log.ts";
import type { NameCounts } from "../policies/names/name_learning.ts";
import type { OpenedPolicies } from "../policies/open.ts";
import type { PolicyNotices } from "../policies/status/policy_notices.ts";
import type { Description } from "./metrics.ts";
import type { PolicyCounters } from "./policy_counters.ts";

/** The sources of the values about policies. */
export interface PolicyMetricSources extends Pick<OpenedPolicies, "isWorkedOut" | "counts"> {
  readonly notices: Pick<PolicyNotices, "isInForce" | "states">;
  readonly counters: Pick<PolicyCounters, "sums" | "lastCommit">;
}

/** Returns all metrics about policies except those of their rules and drops (`counter_text.ts`). */
export function ofPolicies({ notices, counters, counts }: PolicyMetricSources): readonly Description[] {
  const { sums } = counters;
  return [
    {
      name: "drawbridge_policies_in_force",
      help: "Whether NetworkPolicy and ClusterNetworkPolicy are in force on this node: 1 or 0.",
      value: () => Number(notices.isInForce),
    },
    {
      name: "drawbridge_network_policies",
      help: "NetworkPolicies by their state on this node: enforced, restricted (allow less than they say), shadow (only tried out), off (policies: false).",
      value: { label: "state", of: () => Object.entries(notices.states()) },
    },
    {
      name: "drawbridge_policy_profiles",
      help: "Distinct sets of policies that select pods of this node, in one direction.",
      value: () => sums.profiles,
    },
    {
      name: "drawbridge_policy_sets",
      help: "Sets for the groups in the rules of those policies, each for two families.",
      value: () => counts?.sets().sets ?? 0,
    },
    {
      name: "drawbridge_policy_set_members",
      help: "Pods and nodes in those sets, each counted in every set it is in.",
      value: () => counts?.sets().members ?? 0,
    },
    {
      name: "drawbridge_policy_set_elements",
      help: "Elements of those sets: pairs of an address and a port. Those of NetworkPolicies are bounded.",
      value: () => counts?.sets().elements ?? 0,
    },
    {
      name: "drawbridge_policy_closed_sets",
      help: "Sets that lack elements, or lists of policies that lack sets, for want of room.",
      value: () => counts?.sets().closed ?? 0,
    },
    {
      name: "drawbridge_policy_last_commit_timestamp_seconds",
      help: "When the rules of policies were last changed, in seconds since the epoch; 0 for never.",
      value: () => counters.lastCommit,
    },
    {
      name: "drawbridge_policy_would_drop_packets_total",
      help: "Packets that passed and that shadow NetworkPolicies would have dropped.",
      value: { label: "direction", of: () => sums.wouldDrop() },
    },
    {
      name: "drawbridge_policy_merged_rule_packets_total",
      help: "Packets allowed by merged rules of pods with many rules, for which the single rule is not known.",
      value: { label: "direction", of: () => sums.several() },
    },
    {
      name: "drawbridge_policy_log_packets_total",
      help: "Packets of the drop log: explained, repeated within a minute, too many at once, or not ours.",
      value: { label: "result", of: () => logged(counts?.dropLog()) },
    },
    {
      name: "drawbridge_policy_log_overruns_total",
      help: "Times packets of the drop log were lost before they were read.",
      value: () => counts?.dropLog().overruns ?? 0,
    },
    {
      name: "drawbridge_policy_live_connections_total",
      help: "Live connections that were cut because a change denies them, and restored because another allows them again.",
      value: {
        label: "result",
        of: () => [["cut", counts?.cuts().cut ?? 0] as const, ["restored", counts?.cuts().restored ?? 0]],
      },
    },
    {
      name: "drawbridge_policy_numbered_connections",
      help: "Connections that rules know by number: settled before the policies came, or reset because they were cut.",
      value: {
        label: "state",
        of: () => [["settled", counts?.cuts().settled ?? 0] as const, ["reset", counts?.cuts().reset ?? 0]],
      },
    },
    {
      name: "drawbridge_policy_cut_failures_total",
      help: "Times live connections could not be checked against changed policies; each was retried.",
      value: () => counts?.cuts().failures ?? 0,
    },
    {
      name: "drawbridge_policy_named_addresses",
      help: "Addresses that pods of this node know, or knew, by the domain names of their policies.",
      value: () => counts?.names().known ?? 0,
    },
    {
      name: "drawbridge_policy_name_answers_total",
      help: "DNS answers for domain names of policies by outcome: used, refused (an address of the inside), dropped (too many addresses), overrun (times answers were lost before they were read).",
      value: { label: "result", of: () => answers(counts?.names()) },
    },
  ];
}

function logged(counts: DropLogCounts | undefined): Iterable<readonly [string, number]> {
  return (["explained", "repeated", "too many", "not ours"] as const).map((result) => [result, counts?.[result] ?? 0]);
}

function answers(counts: NameCounts | undefined): Iterable<readonly [string, number]> {
  const { answers: used = 0, refused = 0, dropped = 0, overruns: overrun = 0 } = counts ?? {};
  return Object.entries({ used, refused, dropped, overrun });
}
