import type { Change } from "../../../kernel/nftables/encode/change.ts";

type Batch = readonly Change[] | undefined;

/** Returns the chains whose rules are the subject of changes of one kind, each once. */
export function touchedChains(batch: Batch, kind: Change["kind"]): string[] {
  const named = batch?.flatMap((change) =>
    change.kind === kind && "chain" in change && typeof change.chain === "string" ? [change.chain] : [],
  );
  return [...new Set(named)];
}

/** Returns the sets that are the subject of changes of one kind. */
export function touchedSets(batch: Batch, kind: Change["kind"]): string[] {
  return batch?.flatMap((change) => (change.kind === kind && "set" in change ? [change.set.name] : [])) ?? [];
}
