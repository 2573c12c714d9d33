import { hash } from "node:crypto";
import type { Chain, SetDefinition, Table } from "../../kernel/nftables/model/object.ts";
import { ownComment } from "../../attachment/our_tables.ts";

/** The prefix of the name of a chain without rules; the rest of the name is the version in force. */
const VERSION_CHAIN = "schema-";
const VERSION_CHARACTERS = 16;

/**
 * Returns the table with its schema's version as the name of an additional chain without rules. The version is a hash
 * of everything static in the table. So two programs whose tables differ in a chain, a rule or the definition of a set
 * have different versions, in both directions of an upgrade.
 *
 * Another version is put in force in the existing table. Therefore a chain that gets another hook, or a set that holds
 * something else, must get another name. Otherwise the table can only be replaced as a whole, and its sets of ranges
 * are empty for a moment.
 */
export function withVersion(table: Omit<Table, "comment">): Table {
  // As JSON, since printing the tables as text takes a tenth of a start's processor time.
  const text = JSON.stringify(table, (_, value: unknown) => (typeof value === "bigint" ? `${value}` : value));
  const version = hash("sha256", text).slice(0, VERSION_CHARACTERS);
  const chains = [...table.chains, { name: `${VERSION_CHAIN}${version}`, rules: [] }];
  return Object.freeze({ ...table, chains, comment: ownComment("as a chain is named") });
}

/** Whether a chain is the one that names the version. */
export function namesVersion({ name }: Pick<Chain, "name">): boolean {
  return name.startsWith(VERSION_CHAIN);
}

/** Whether only rules write a set's elements (affinity): they are neither claimed nor compared. */
export function isWrittenByRules(set: SetDefinition): boolean {
  return set.isDynamic === true;
}
