import type { Rule } from "../../../kernel/nftables/statement.ts";
import type { SharedRules, TablePart } from "../../node/table_part.ts";
import { affinity } from "./affinity_part.ts";
import { checks } from "./check_part.ts";
import { connectionCounts } from "./connection_counts.ts";
import type { ServiceRules } from "./context.ts";
import { endpointMaps } from "./endpoint_maps.ts";
import { frontendSets } from "./frontend_sets.ts";
import { nat } from "./nat_part.ts";
import { numberMaps } from "./number_maps.ts";

/**
 * The part of the inet table that serves Services: chains, rules and sets whose number never depends on what is in the
 * cluster. All else are elements. Verdicts are only among those of timeouts (`TimeoutClasses`), which seldom change: with a
 * verdict the kernel checks all chains again.
 */
export function services(rules: ServiceRules): TablePart {
  const parts = [
    frontendSets(),
    numberMaps(),
    endpointMaps(),
    affinity(),
    connectionCounts(),
    checks(rules),
    nat(rules),
  ];
  return {
    sets: parts.flatMap(({ sets }) => sets),
    chains: parts.flatMap(({ chains }) => chains),
    shared: merged(parts.map(({ shared }) => shared)),
    sharedForNew: merged(parts.map(({ sharedForNew }) => sharedForNew)),
  };
}

/** The rules of several parts, in their order. */
function merged(several: readonly (SharedRules | undefined)[]): SharedRules {
  const chains = new Map<string, readonly Rule[]>();
  for (const [chain, rules] of several.flatMap((one) => Object.entries(one ?? {}))) {
    chains.set(chain, [...(chains.get(chain) ?? []), ...rules]);
  }
  return Object.fromEntries(chains);
}
