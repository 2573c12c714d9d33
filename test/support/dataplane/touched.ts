import type { Change } from "../../../kernel/nftables/change.ts";

type Batch = readonly Change[] | undefined;

/** The chains whose rules changes of one kind are about, each once. */
export function touchedChains(batch: Batch, kind: Change["kind"]): string[] {
  const named = batch?.flatMap((change) =>
    change.kind === kind && "chain" in change && typeof change.chain === "string" ? [change.chain] : [],
  );
  return [...new Set(named)];
}

/** The sets that changes of one kind are about. */
export function touchedSets(batch: Batch, kind: Change["kind"]): string[] {
  return batch?.flatMap((change) => (change.kind === kind && "set" in change ? [change.set.name] : [])) ?? [];
}
