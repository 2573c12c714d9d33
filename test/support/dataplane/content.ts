import { keyText } from "../../../kernel/nftables/element.ts";
import type { Table } from "../../../kernel/nftables/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import { formatTable } from "../../../kernel/nftables/text.ts";
import { knownRules, staticDifferences } from "../../../policyd/dataplane/static_difference.ts";

/** What the kernel has of a table: its elements, its rules, and in what it is not as defined; one text to compare. */
export function contentOf(kernel: Nftables, table: Table): string {
  const elements = table.sets.map(
    (set) =>
      [set.name, kernel.elements(table, set).toSorted((a, b) => (keyText(a.key) < keyText(b.key) ? -1 : 1))] as const,
  );
  const state = kernel.table(table);
  if (state === undefined) return "missing";
  const rules = [...knownRules(state)].map(([chain, text]) => `${chain}: ${text}`);
  return [formatTable(table, new Map(elements)), ...rules, ...staticDifferences(table, state, undefined)].join("\n");
}
