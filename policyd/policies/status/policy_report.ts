import * as v from "valibot";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { parseJsonLine } from "../../lib/json_line.ts";
import { printableUpTo } from "../../../objects/printable.ts";
import type { KnownName } from "../names/known_by_policy.ts";
import type { NameLearning } from "../names/name_learning.ts";
import type { PolicyNotices, PolicyStanding } from "./policy_notices.ts";

/** A policy on a node. */
export interface ReportedPolicy extends PolicyStanding {
  /** Packets that matched its rules; a rule is missing where the node does not have it, or does not know its number. */
  readonly rules: readonly {
    readonly direction: "egress" | "ingress";
    readonly rule: number;
    readonly packets: number;
  }[];
  /** Addresses that pods of the node know by its domain names. */
  readonly names: readonly KnownName[];
}

/** A part of a report: lines of JSON, and where the next part begins. */
export interface ReportPage {
  readonly lines: string;
  /** The last policy of this part; undefined in the last part. */
  readonly next: string | undefined;
}

/** A message holds 64 KiB, in which a character of JSON within JSON takes up to six bytes; nearly all take one. */
const PAGE_CHARACTERS = 8_000;
const MOST_PROBLEMS = 3;
const LONGEST_PROBLEM = 300;
/** More rules of a policy than nodes have. */
const MOST_RULES = 200;
/** These make half of a message at most. */
export const MOST_NAMES = 50;

const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const schema = v.object({
  kind: v.picklist(["NetworkPolicy", "ClusterNetworkPolicy"]),
  key: v.pipe(v.string(), v.maxLength(512)),
  generation: count,
  inForce: v.optional(count),
  since: v.optional(v.pipe(v.string(), v.isoTimestamp())),
  state: v.picklist(["enforced", "restricted", "shadow", "off"]),
  problems: v.array(v.string()),
  rules: v.array(v.object({ direction: v.picklist(["egress", "ingress"]), rule: count, packets: count })),
  // Daemons of earlier versions do not report them.
  names: v.optional(
    v.array(
      v.object({
        name: v.pipe(v.string(), v.maxLength(253)),
        address: v.pipe(
          v.string(),
          v.ip(),
          v.transform((text) => parseAddress(text)),
        ),
        pod: v.optional(v.pipe(v.string(), v.maxLength(512))),
        seconds: count,
      }),
    ),
    [],
  ),
});

/** The packets that a rule of a policy has matched on this node. */
type RulePackets = ReportedPolicy["rules"][number] & { readonly policy: string };

/** The sources of a report. */
export interface ReportParts {
  readonly notices: Pick<PolicyNotices, "all">;
  readonly names: NameLearning["knownByPolicy"];
  readonly counters: { refresh(): Promise<void>; readonly sums: { knownRules(): Iterable<RulePackets> } };
}

/** Returns the function that answers with the part of a node's report after a policy; the first part reads for all. */
export function policyReporter(parts: ReportParts): (after: string | undefined) => Promise<ReportPage> {
  let policies: readonly ReportedPolicy[] | undefined;
  return async (after) => {
    if (after === undefined || policies === undefined) policies = await reportedPolicies(parts);
    return reportPage(policies, after);
  };
}

async function reportedPolicies({ notices, counters, names }: ReportParts): Promise<readonly ReportedPolicy[]> {
  await counters.refresh();
  const packets = packetsByPolicy(counters.sums.knownRules());
  const known = names(MOST_NAMES);
  return notices.all().map((one) => ({ ...one, rules: packets.get(one.key) ?? [], names: known.get(idOf(one)) ?? [] }));
}

/** Returns the part of a report after a policy. @param after `next` of the part before; undefined for the first */
export function reportPage(policies: readonly ReportedPolicy[], after: string | undefined): ReportPage {
  let lines = "";
  let last: string | undefined;
  for (const policy of policies) {
    const id = idOf(policy);
    if (after !== undefined && id <= after) continue;
    const line = reportLine(policy);
    if (lines !== "" && lines.length + line.length > PAGE_CHARACTERS) return { lines, next: last };
    lines += line;
    last = id;
  }
  return { lines, next: undefined };
}

/** Returns a policy as a line of JSON. */
export function reportLine({ since, problems, rules, names, ...rest }: ReportedPolicy): string {
  const cut = problems.slice(0, MOST_PROBLEMS).map((problem) => printableUpTo(problem, LONGEST_PROBLEM));
  const time = since === undefined ? undefined : new Date(since).toISOString();
  const known = names.map((one) => ({ ...one, address: formatAddress(one.address) }));
  return `${JSON.stringify({ ...rest, since: time, problems: cut, rules: rules.slice(0, MOST_RULES), names: known })}\n`;
}

/** Reads a line of {@link reportLine}. @throws DrawbridgeError ERR_INPUT with the field and what was expected */
export function parseReportLine(line: string): ReportedPolicy {
  const { since, inForce, names, ...rest } = parseJsonLine(line, schema, "policy");
  const known = names.map(({ pod, ...one }) => ({ ...one, pod }));
  return { ...rest, inForce, since: since === undefined ? undefined : Date.parse(since), names: known };
}

/** Returns the packets of rules by the policy's key. */
export function packetsByPolicy(series: Iterable<RulePackets>): ReadonlyMap<string, ReportedPolicy["rules"]> {
  const found = new Map<string, ReportedPolicy["rules"][number][]>();
  for (const { policy, direction, rule, packets } of series) {
    const rules = found.get(policy);
    if (rules === undefined) found.set(policy, [{ direction, rule, packets }]);
    else rules.push({ direction, rule, packets });
  }
  return found;
}

function idOf({ kind, key }: PolicyStanding): string {
  return `${kind} ${key}`;
}
