import type { Table } from "../../kernel/nftables/object.ts";
import { tableKey } from "../../policyd/dataplane/claim.ts";
import type { DesiredObjects } from "../../policyd/dataplane/desired_objects.ts";

/** A table with the sets and chains that come and go with what is in the cluster, in the order of their names. */
export function wholeTable(table: Table, wanted: DesiredObjects): Table {
  const key = tableKey(table);
  return {
    ...table,
    sets: fixedFirst(table.sets, wanted.sets(key)),
    chains: fixedFirst(table.chains, wanted.chains(key)),
  };
}

/** A name says what an object is and not when it came. */
function fixedFirst<T extends { readonly name: string }>(fixed: readonly T[], all: Iterable<T>): readonly T[] {
  const others = [...all].filter((one) => !fixed.includes(one));
  return [...fixed, ...others.sort((a, b) => (a.name < b.name ? -1 : 1))];
}
