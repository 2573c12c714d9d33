import type { TablePart } from "../../ruleset/table_part.ts";
import { affinity } from "./affinity_part.ts";
import { checks } from "./check_part.ts";
import { connectionCounts } from "./connection_counts.ts";
import type { ServiceRules } from "./context.ts";
import { endpointMaps } from "./endpoint_maps.ts";
import { frontendSets } from "./frontend_sets.ts";
import { nat } from "./nat_part.ts";
import { numberMaps } from "./number_maps.ts";

/**
 * Returns the parts of the inet table that serve Services: chains, rules and sets whose number never depends on what is
 * in the cluster. Everything else is elements. Only the elements of timeouts (`TimeoutClasses`) contain verdicts, and
 * they seldom change: for an element with a verdict the kernel validates all chains again.
 */
export function services(rules: ServiceRules): readonly TablePart[] {
  return [frontendSets(), numberMaps(), endpointMaps(), affinity(), connectionCounts(), checks(rules), nat(rules)];
}
