import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import type { ProvidedObjects } from "../../ruleset/desired/desired_objects.ts";
import type { Ruleset } from "../../ruleset/ruleset.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";

/** The table of policies, filled by owners. All changes of one turn of the event loop are one batch. */
export interface PolicyRules {
  /** Sets the elements that an owner claims. */
  claim(owner: string, claims: readonly DesiredElement[]): void;
  /** Sets the sets and chains that an owner provides, whose names are hashes of their content. */
  provide(owner: string, objects: Pick<ProvidedObjects, "sets" | "chains">): void;
}

/**
 * Returns the table in a ruleset. Policies do not wait for `minSyncPeriod`.
 *
 * @param reported is called on each claim and each change of provided objects
 */
export function policyRules(ruleset: Pick<Ruleset, "claim" | "provide">, reported: () => void): PolicyRules {
  return {
    claim: (owner, claims) => {
      reported();
      // A flat string, since there is one for each member of each set: a concatenated string keeps its parts in memory.
      ruleset.claim(["policy", owner].join(" "), claims, "urgent");
    },
    provide: (owner, objects) => {
      reported();
      ruleset.provide(`policy ${owner}`, { table: POLICY_TABLE, ...objects }, "urgent");
    },
  };
}
