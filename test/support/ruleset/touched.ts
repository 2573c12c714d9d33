import type { Change } from "../../../kernel/nftables/encode/change.ts";

/** Returns the names of the sets, chains and tables that are the subject of changes of some kinds, each once. */
export function touched(batch: readonly Change[] | undefined, ...kinds: readonly Change["kind"][]): string[] {
  const names = batch?.flatMap((change) => {
    if (!kinds.includes(change.kind)) return [];
    if ("set" in change) return [change.set.name];
    if ("chain" in change) return [typeof change.chain === "string" ? change.chain : change.chain.name];
    return [change.table.name];
  });
  return [...new Set(names)];
}
