import type { Chain } from "../../../kernel/nftables/model/object.ts";
import type { DesiredElement } from "../../../policyd/ruleset/desired/desired_element.ts";
import type { TimeoutRules } from "../../../policyd/services/affinity/timeout_numbers.ts";

/** Returns the chains of timeouts. */
export function chainsOf(rules: readonly TimeoutRules[]): readonly Chain[] {
  return rules.flatMap(({ chains }) => chains);
}

/** Returns the elements that lead to the chains of timeouts. */
export function claimsOf(rules: readonly TimeoutRules[]): readonly DesiredElement[] {
  return rules.flatMap(({ claims }) => claims);
}
