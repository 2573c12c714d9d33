import type { Table } from "../../kernel/nftables/model/object.ts";
import { tableKey } from "../../policyd/ruleset/desired/desired_element.ts";
import type { DesiredObjects } from "../../policyd/ruleset/desired/desired_objects.ts";

/** Returns a table with the sets and chains that depend on the cluster, sorted by name. */
export function wholeTable(table: Table, wanted: DesiredObjects): Table {
  const key = tableKey(table);
  return {
    ...table,
    sets: fixedFirst(table.sets, wanted.sets(key)),
    chains: fixedFirst(table.chains, wanted.chains(key)),
  };
}

/** Appends the other objects by name, so that the text does not depend on the order in which they came. */
function fixedFirst<T extends { readonly name: string }>(fixed: readonly T[], all: Iterable<T>): readonly T[] {
  const others = [...all].filter((one) => !fixed.includes(one));
  return [...fixed, ...others.sort((a, b) => (a.name < b.name ? -1 : 1))];
}
