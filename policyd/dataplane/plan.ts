import type { Change } from "../../kernel/nftables/change.ts";
import { tableChanges } from "../../kernel/nftables/change.ts";
import type { Element, Table } from "../../kernel/nftables/object.ts";

/**
 * The steps that make a table anew: within one transaction the old one goes and the new one is there, so no packet
 * meets neither. It serves the first start, an upgrade and a downgrade, and the repair of a rule.
 *
 * @param elements of each set by its name: what is claimed, and what rules had written before
 */
export function replaceTable(
  table: Table,
  isPresent: boolean,
  elements: ReadonlyMap<string, readonly Element[]>,
): readonly Change[] {
  return [...(isPresent ? [{ kind: "delete table", table } as const] : []), ...tableChanges(table, elements)];
}

/**
 * The steps by which a new process takes over a table it finds in order: it becomes the owner of one that an earlier
 * process owned, and writes the rules anew, since a rule can be changed in ways a comparison of listings does not show.
 * The sets stay, with what they hold and count.
 */
export function adoptTable(table: Table): readonly Change[] {
  return [
    { kind: "add table", table },
    ...table.chains.flatMap(({ name, rules }): readonly Change[] => [
      { kind: "flush chain", table, chain: name },
      ...rules.map((rule): Change => ({ kind: "add rule", table, chain: name, rule })),
    ]),
  ];
}
