import type { ChainState, RuleState, SetState, TableHead } from "../../../kernel/nftables/decode/state.ts";
import type { TableReference } from "../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";

/** A chain as observed in the kernel. */
export interface ObservedChain {
  readonly attributes: ChainState;
  readonly rules: readonly RuleState[];
}

/** A table as observed in the kernel, without the elements of its sets. */
export interface TableState extends TableHead {
  readonly chains: ReadonlyMap<string, ObservedChain>;
  readonly sets: ReadonlyMap<string, SetState>;
}

/** Returns a table with all its parts; undefined when there is no such table. */
export function tableState(
  kernel: Pick<Nftables, "head" | "chains" | "sets" | "rulesOf">,
  reference: TableReference,
): TableState | undefined {
  const head = kernel.head(reference);
  if (head === undefined) return undefined;
  const chains = kernel.chains(reference).map((attributes): [string, ObservedChain] => {
    const { name = "" } = attributes;
    return [name, { attributes, rules: kernel.rulesOf(reference, name) }];
  });
  return {
    ...head,
    chains: new Map(chains),
    sets: new Map(kernel.sets(reference).map((set) => [set.name ?? "", set])),
  };
}
