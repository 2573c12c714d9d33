import { type Direction, DIRECTIONS } from "../../../../objects/semantics/policies/flow.ts";
import type { NetworkPolicy } from "../../../../objects/model.ts";
import type { PortPattern } from "../../../../objects/semantics/policies/indexed_policy.ts";
import { isolates, type LintContext, type LintedPolicy, remark, type RuleSite } from "../context.ts";
import { asInfo, type LintRule, type Remark } from "../finding.ts";
import { isOfOperator } from "../operator_selectors.ts";
import { suggestionText } from "../nearest_label.ts";
import { evaluatedPeers, ownNamespace, podsOfBlocks, UNLESS_TO_COME } from "../peer_state.ts";
import { peerText } from "../selector_text.ts";
import { unreadParts } from "../unread.ts";
import { at } from "../../../input/raw.ts";

export const allowsNothing: LintRule = {
  id: "allows-nothing",
  severity: "warning",
  summary: "A rule lets nobody in or out, or a policy closes a direction for which nobody has a rule.",
  reason:
    "A rule for nobody is a mistake in its selectors. It is info where an operator creates the pods, and where a type in policyTypes has no rules.",
  judgesBy: ["pods", "namespaces"],
  check: (context) => [
    ...context.sites.flatMap((site) => emptyRule(context, site)),
    ...context.networkPolicies.flatMap((linted) =>
      DIRECTIONS.flatMap((direction) => closedDirection(context, linted, direction)),
    ),
  ],
};

function emptyRule(context: LintContext, site: RuleSite): readonly Remark[] {
  const { linted, rule, path } = site;
  const evaluated = context.hasPods ? evaluatedPeers(context, site) : [];
  const own = ownNamespace(linted.policy);
  if (evaluated.length > 0 && evaluated.every(({ state }) => state.type === "nothing")) {
    const texts = evaluated.map(({ peer }) => peerText(peer, own));
    const suggestions = evaluated.map(({ state }) => (state.type === "nothing" ? state.suggestion : undefined));
    const suggestion = suggestions.find((one) => one !== undefined);
    const fix = suggestionText(suggestion) ?? `correct the selectors, or delete the rule${UNLESS_TO_COME}`;
    const found = remark(linted.manifest, path, `the rule is for nobody: ${texts.join(" OR ")}`, fix);
    return [asInfo(found, suggestion === undefined && evaluated.every(({ peer }) => isOfOperator(context, peer)))];
  }
  if (!isNamesForAddresses(context, site)) return [];
  const names = (rule.ports ?? []).map(({ port }) => JSON.stringify(port)).join(", ");
  const message = `the rule allows nothing: no pod in its ipBlocks has a port called ${names}, and only pods have such names`;
  return [remark(linted.manifest, path, message, "give the ports as numbers")];
}

/** Returns whether a rule has only addresses and port names that no pod with such an address has (POL-31). */
function isNamesForAddresses(context: LintContext, site: RuleSite): boolean {
  const { direction, rule } = site;
  const peers = rule.peers ?? [];
  const ports: readonly PortPattern[] = rule.ports ?? [];
  if (direction !== "egress" || peers.length === 0 || ports.length === 0 || !context.hasPods) return false;
  const isNamesOnly =
    peers.every(({ type }) => type === "ipBlock") && ports.every(({ port }) => typeof port === "string");
  if (!isNamesOnly) return false;
  const known = podsOfBlocks(context, site).flatMap((pod) => pod.ports);
  return !ports.some(({ port, protocol }) =>
    known.some((one) => one.name === port && (protocol === undefined || one.protocol === protocol)),
  );
}

/** Reports a policy type without rules, perhaps a habit, if no policy of these pods has rules for it. */
function closedDirection(
  { index, manifests }: LintContext,
  { manifest, policy, pods }: LintedPolicy<NetworkPolicy>,
  direction: Direction,
): readonly Remark[] {
  const other = direction === "egress" ? "ingress" : "egress";
  if (!isolates(policy, direction) || policy[direction].length > 0) return [];
  if (!isolates(policy, other) || policy[other].length === 0) return [];
  const areAllClosed = pods.every((pod) => {
    const profile = index.pods.get(pod.key)?.subject?.profile[direction];
    if (profile === undefined) return false;
    const { admin, isolating, shadow } = profile;
    return admin.length === 0 && [...isolating, ...shadow].every((one) => one.rules[direction].length === 0);
  });
  // A policy that could not be read may have such rules.
  if (pods.length === 0 || !areAllClosed || unreadParts(manifests.problems).has("policies")) return [];
  const type = direction === "egress" ? "Egress" : "Ingress";
  const message = `policyTypes has ${type}, and no policy of these pods has ${direction} rules: they allow no ${direction} at all`;
  const fix = `omit ${type} from policyTypes, or add ${direction} rules${direction === "egress" ? ", such as one for DNS" : ""}`;
  // A type without rules may be intended.
  return [asInfo(remark(manifest, ["spec", "policyTypes"], message, fix))];
}

export const rulesIgnored: LintRule = {
  id: "rules-ignored",
  severity: "warning",
  summary:
    "Rules of a direction that policyTypes omits are ignored, and so is an empty egress list without policyTypes.",
  reason: "They look like a protection that is not there.",
  check: ({ networkPolicies }) =>
    networkPolicies.flatMap(({ manifest, policy }) =>
      DIRECTIONS.flatMap((direction) => {
        if (isolates(policy, direction)) return [];
        const type = direction === "egress" ? "Egress" : "Ingress";
        if (policy[direction].length > 0) {
          const message = `the ${direction} rules are ignored: policyTypes has no ${type}`;
          return [remark(manifest, ["spec", direction], message, `add ${type} to policyTypes, or delete the rules`)];
        }
        const isEmptyEgress = direction === "egress" && Array.isArray(at(manifest.source, "spec", "egress"));
        if (!isEmptyEgress || Array.isArray(at(manifest.source, "spec", "policyTypes"))) return [];
        const message = "egress: [] without policyTypes isolates nothing: all egress stays allowed";
        return [remark(manifest, ["spec", "egress"], message, "write policyTypes: [Ingress, Egress] to close egress")];
      }),
    ),
};
