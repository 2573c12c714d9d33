import { createHash } from "node:crypto";
import type { Chain, SetDefinition, Table } from "../../kernel/nftables/object.ts";
import { formatTable } from "../../kernel/nftables/text.ts";
import { ownComment } from "./own_comment.ts";

/** How the name begins of the chain without rules that says by the rest of its name which version is in force. */
const VERSION_CHAIN = "schema-";
const VERSION_CHARACTERS = 16;

/**
 * The table with its schema's version as the name of a chain without rules: a hash of everything static in it, so that any
 * two programs whose tables differ in a chain, a rule or the definition of a set have different versions, in both directions
 * of an upgrade.
 *
 * Another version is put in force in the table that is there. What has other hooks or holds something else must therefore have
 * another name: where it has not, the table can only be replaced as a whole, and its sets of ranges are empty for a moment.
 */
export function withVersion(table: Omit<Table, "comment">): Table {
  const text = formatTable(table, new Map());
  const version = createHash("sha256").update(text).digest("hex").slice(0, VERSION_CHARACTERS);
  const chains = [...table.chains, { name: `${VERSION_CHAIN}${version}`, rules: [] }];
  return Object.freeze({ ...table, chains, comment: ownComment("as a chain is named") });
}

/** Whether a chain is the one that names the version. */
export function namesVersion({ name }: Pick<Chain, "name">): boolean {
  return name.startsWith(VERSION_CHAIN);
}

/** Whether rules alone write a set's elements (affinity): they are neither claimed nor compared. */
export function isWrittenByRules(set: SetDefinition): boolean {
  return set.isDynamic === true;
}
