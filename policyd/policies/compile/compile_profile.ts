import type { ClusterNetworkPolicy, ClusterPolicyTier, NetworkPolicy } from "../../../objects/model.ts";
import { isShadow } from "../../../objects/shadow_annotation.ts";
import {
  clusterPolicyRules,
  type CompiledRules,
  networkPolicyRules,
  networkPolicyRulesAhead,
} from "./compile_rules.ts";
import type { Slices } from "../../lib/sliced_work.ts";
import { digest } from "./digest.ts";
import type { Direction, Isolation, Profile } from "./profile.ts";

/**
 * Compiles the policies of some pods in one direction into a profile; undefined if none of them applies.
 *
 * Cluster policies are evaluated by priority, those of equal priority by key. Rules that are never reached are omitted,
 * so that more pods share a profile: shadow and Baseline if NetworkPolicies isolate.
 *
 * @param networkPolicies all that select the pods, in any order
 * @param clusterPolicies likewise
 */
export function compileProfile(
  direction: Direction,
  networkPolicies: readonly NetworkPolicy[],
  clusterPolicies: readonly ClusterNetworkPolicy[],
): Profile | undefined {
  const [isolating, inShadow] = isolatingPolicies(direction, networkPolicies);
  const isolation = isolationOf(direction, isolating);
  const shadow = isolation === undefined ? isolationOf(direction, inShadow) : undefined;
  const admin = tier("Admin", direction, clusterPolicies);
  const baseline = isolation === undefined ? tier("Baseline", direction, clusterPolicies) : [];
  const adminRules = admin.flatMap(({ rules }) => rules);
  const baselineRules = baseline.flatMap(({ rules }) => rules);
  if (isolation === undefined && shadow === undefined && adminRules.length + baselineRules.length === 0) {
    return undefined;
  }
  const digests = (all: readonly CompiledRules[]): readonly string[] => all.map((one) => one.digest);
  return Object.freeze({
    direction,
    key: digest([direction, digests(admin), isolation?.digest ?? null, shadow?.digest ?? null, digests(baseline)]),
    admin: adminRules,
    isolation: isolation?.isolation,
    shadow: shadow?.isolation,
    baseline: baselineRules,
  });
}

/** Does most of the work of {@link compileProfile} for the same NetworkPolicies in slices. */
export function* compileProfileAhead(direction: Direction, networkPolicies: readonly NetworkPolicy[]): Slices<void> {
  const [isolating, inShadow] = isolatingPolicies(direction, networkPolicies);
  yield* networkPolicyRulesAhead(isolating.length > 0 ? isolating : inShadow, direction);
}

/** Returns the policies of a direction that isolate, and those in shadow, in the order in which they use up the pairs. */
export function isolatingPolicies(
  direction: Direction,
  policies: readonly NetworkPolicy[],
): readonly [isolating: readonly NetworkPolicy[], inShadow: readonly NetworkPolicy[]] {
  const type = direction === "egress" ? "Egress" : "Ingress";
  const all = policies.filter(({ policyTypes }) => policyTypes.includes(type)).toSorted(byKey);
  return [all.filter((policy) => !isShadow(policy)), all.filter(isShadow)];
}

function isolationOf(
  direction: Direction,
  policies: readonly NetworkPolicy[],
): { readonly isolation: Isolation; readonly digest: unknown } | undefined {
  if (policies.length === 0) return undefined;
  const { said, omitted } = networkPolicyRules(policies, direction);
  return {
    isolation: Object.freeze({
      policies: policies.map(({ key }) => key),
      rules: said.flatMap(({ rules }) => rules),
      omitted,
    }),
    digest: said.map((one, index) => [policies[index]?.key, one.digest]),
  };
}

function tier(
  name: ClusterPolicyTier,
  direction: Direction,
  policies: readonly ClusterNetworkPolicy[],
): readonly CompiledRules[] {
  return policies
    .filter((policy) => policy.tier === name && policy[direction].length > 0)
    .toSorted((a, b) => a.priority - b.priority || byKey(a, b))
    .map((policy) => clusterPolicyRules(policy, direction));
}

function byKey(a: { readonly key: string }, b: { readonly key: string }): number {
  return a.key < b.key ? -1 : 1;
}
