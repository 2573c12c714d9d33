import type { Claim } from "../../dataplane/claim.ts";
import type { ProvidedObjects } from "../../dataplane/desired_objects.ts";
import type { Ruleset } from "../../dataplane/ruleset.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";

/** The table of policies, as owners fill it. What is asked for in one turn of the event loop is one batch. */
export interface PolicyRules {
  /** Sets the elements an owner wants. */
  claim(owner: string, claims: readonly Claim[]): void;
  /** Sets the sets and chains an owner wants, whose names are hashes of their content. */
  provide(owner: string, objects: Pick<ProvidedObjects, "sets" | "chains">): void;
}

/**
 * The table in a ruleset. Policies do not wait for `minSyncPeriod`.
 *
 * @param told is called each time that somebody wants something
 */
export function policyRules(ruleset: Pick<Ruleset, "claim" | "provide">, told: () => void): PolicyRules {
  return {
    claim: (owner, claims) => {
      told();
      // In one piece: a text that is put together from texts is kept as those, and there is one for each member of each set.
      ruleset.claim(["policy", owner].join(" "), claims, "urgent");
    },
    provide: (owner, objects) => {
      told();
      ruleset.provide(`policy ${owner}`, { table: POLICY_TABLE, ...objects }, "urgent");
    },
  };
}
