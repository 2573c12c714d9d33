import { setTimeout as pause } from "node:timers/promises";
import type { LabNode } from "../lab/lab.ts";
import { normalListing } from "../support/nftables/listing.ts";

const DEADLINE_MILLISECONDS = 20_000;
const POLL_MILLISECONDS = 2;

/** How long a node was not as it should be after its ruleset had been flushed. */
export interface FlushResult {
  readonly node: string;
  /** From before the flush until every table was made anew and listed as before; undefined if that did not come. */
  readonly milliseconds: number | undefined;
  readonly tables: number;
}

/** A node's ruleset as nft lists it, without what counts; tables and their chains in an order that is not that of their making. */
export function listRuleset(node: LabNode): string {
  const tables = normalListing(node.exec("nft", ["list", "ruleset"])).split(/^(?=table )/m);
  return tables
    .map((table) => withSortedChains(table.trim()))
    .sort()
    .join("\n");
}

/** Chains come and go while a daemon runs; their order in a table means nothing. */
function withSortedChains(table: string): string {
  const [head = "", ...chains] = table.replace(/\}$/, "").split(/^(?=chain )/m);
  return [head, ...chains.map((chain) => chain.trim()).sort()].join("\n");
}

/**
 * Takes a node's whole ruleset away, as an administrator's mistake does, and waits for it to be back.
 *
 * @param whole what {@link listRuleset} said when nothing was missing
 */
export async function flushRuleset(node: LabNode, whole: string): Promise<FlushResult> {
  const before = tableHandles(node);
  const start = performance.now();
  node.exec("nft", ["flush", "ruleset"]);
  for (;;) {
    const isWhole = listRuleset(node) === whole;
    const elapsed = performance.now() - start;
    const now = tableHandles(node);
    // The kernel gives no handle twice: a table of another handle is one that was made after the flush.
    const isNew = [...now].every((handle) => !before.has(handle));
    if (isWhole && isNew) return { node: node.name, milliseconds: elapsed, tables: now.size };
    if (elapsed > DEADLINE_MILLISECONDS) return { node: node.name, milliseconds: undefined, tables: now.size };
    await pause(POLL_MILLISECONDS);
  }
}

function tableHandles(node: LabNode): ReadonlySet<string> {
  return new Set(
    [...node.exec("nft", ["-a", "list", "ruleset"]).matchAll(/^table .* # handle (\d+)$/gm)].map(
      ([, handle = ""]) => handle,
    ),
  );
}
