import type { Chain, Table, TableReference } from "../../../kernel/nftables/model/object.ts";
import type { Cancel, Clock } from "../../lib/clock.ts";

/** Accepts rules in advance. */
export interface RulePreparation {
  /** Encodes a chain's rules for the batch that will add them. */
  prepare(table: TableReference, chain: Pick<Chain, "name" | "rules">): void;
}

/** The number of rules that are prepared in a turn of the event loop, unless one chain has more. */
const RULES_PER_TURN = 50;

/**
 * Prepares all rules that do not depend on the cluster, bit by bit. A daemon that waits for its API server has the
 * time, and pods created meanwhile wait for whatever is left to do when the API server is back.
 *
 * @returns ends it; rules that are not prepared by then are encoded with the batch
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
