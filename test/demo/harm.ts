import { setTimeout as pause } from "node:timers/promises";
import type { LabNode } from "../lab/lab.ts";
import { normalListing } from "../support/nftables/listing.ts";

const DEADLINE_MILLISECONDS = 20_000;
const POLL_MILLISECONDS = 2;

/** The time in which a node lacked its state after its ruleset had been flushed. */
export interface FlushResult {
  readonly node: string;
  /**
   * The time from before the flush until every table was made again and listed as before; undefined if that did not
   * happen.
   */
  readonly milliseconds: number | undefined;
  readonly tables: number;
}

/**
 * Returns a node's ruleset as nft lists it, without counters; the order of tables and chains does not depend on that in
 * which they were made.
 */
export function listRuleset(node: LabNode): string {
  const tables = normalListing(node.exec("nft", ["list", "ruleset"])).split(/^(?=table )/m);
  return tables
    .map((table) => withSortedChains(table.trim()))
    .sort()
    .join("\n");
}

/** Sorts the chains of a table: they come and go while a daemon runs, and their order means nothing. */
function withSortedChains(table: string): string {
  const [head = "", ...chains] = table.replace(/\}$/, "").split(/^(?=chain )/m);
  return [head, ...chains.map((chain) => chain.trim()).sort()].join("\n");
}

/**
 * Flushes a node's whole ruleset, as an administrator's mistake does, and waits until it is back.
 *
 * @param whole the result of {@link listRuleset} when nothing was missing
 */
export async function flushRuleset(node: LabNode, whole: string): Promise<FlushResult> {
  const before = tableHandles(node);
  const start = performance.now();
  node.exec("nft", ["flush", "ruleset"]);
  for (;;) {
    const isWhole = listRuleset(node) === whole;
    const elapsed = performance.now() - start;
    const now = tableHandles(node);
    // The kernel never uses a handle twice: a table of another handle was made after the flush.
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
