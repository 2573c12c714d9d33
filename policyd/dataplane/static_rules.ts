import type { Chain, Table, TableReference } from "../../kernel/nftables/object.ts";
import type { Cancel, Clock } from "../clock.ts";

/** What takes rules in advance. */
export interface RulePreparation {
  /** Makes a chain's rules ready for the batch that will bring them. */
  prepare(table: TableReference, chain: Pick<Chain, "name" | "rules">): void;
}

/** So many are made in a turn of the event loop, or one chain. */
const RULES_PER_TURN = 50;

/**
 * Prepares all rules that do not depend on the cluster, bit by bit: a daemon that waits for its API server has the time, and
 * pods that are made meanwhile wait for what is left to do when it is back.
 *
 * @returns ends it; what is not prepared by then is made with the batch
 */
export function prepareStaticRules(
  tables: readonly Table[],
  kernel: RulePreparation,
  clock: Pick<Clock, "after">,
): Cancel {
  const chains = tables.flatMap((table) => table.chains.map((chain) => ({ table, chain })));
  let next = 0;
  let cancel: Cancel = () => {};
  const turn = (): void => {
    for (let rules = 0; rules < RULES_PER_TURN && next < chains.length; next++) {
      const found = chains[next];
      if (found !== undefined) kernel.prepare(found.table, found.chain);
      rules += found?.chain.rules.length ?? 0;
    }
    if (next < chains.length) cancel = clock.after(0, turn);
  };
  cancel = clock.after(0, turn);
  return () => cancel();
}
