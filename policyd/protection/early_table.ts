import { tableChanges } from "../../kernel/nftables/encode/change.ts";
import type { Element, Table, TableReference } from "../../kernel/nftables/model/object.ts";
import { type Nftables, removalOf } from "../../kernel/nftables/socket.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import { ownComment } from "../../attachment/our_tables.ts";
import { keptChains, keptElement, keptSets } from "./nat_exemption.ts";
import type { ProtectedSocket } from "../../objects/socket_refusal.ts";

/** The table that protects the API server's address before any other table is written. */
export const EARLY_TABLE: TableReference = Object.freeze({ family: "inet", name: "drawbridge-kept" });

/** The kernel that is asked for the table, and the ruleset that writes it and so knows that it is our own. */
export interface EarlyTablePlace {
  readonly kernel: Pick<Nftables, "head">;
  readonly ruleset: Pick<Ruleset, "commitBeside">;
}

/**
 * Keeps connections to the API server from being translated before this daemon has read anything, by a table for these
 * sockets, in place of earlier ones. Until then the rules of an earlier daemon stay in force. They may lead these
 * connections to a pod, and the daemon would never read anything.
 *
 * The table is always written as a whole. The batch that puts the node's own tables in force, with the same rules,
 * removes it (`obsoleteTables`).
 *
 * @throws DrawbridgeError when the kernel refuses
 */
export function writeEarlyTable({ kernel, ruleset }: EarlyTablePlace, sockets: readonly ProtectedSocket[]): void {
  const claims = sockets.map(keptElement);
  const elements = new Map<string, readonly Element[]>(
    keptSets.map(({ name }) => [name, claims.filter(({ set }) => set === name).map(({ element }) => element)]),
  );
  const written = sockets.length === 0 ? [] : tableChanges(earlyTable, elements);
  ruleset.commitBeside([...removalOf(kernel, EARLY_TABLE), ...written]);
}

/** The table without its elements. */
export const earlyTable: Table = Object.freeze({
  ...EARLY_TABLE,
  comment: ownComment("of no version"),
  sets: keptSets,
  chains: keptChains,
});
