import { createHash } from "node:crypto";
import type { SetDefinition, Table } from "../../kernel/nftables/object.ts";
import { formatTable } from "../../kernel/nftables/text.ts";

/** How the comment of each table of ours begins; the version of its schema follows. */
const MARK = "drawbridge schema ";
const VERSION_CHARACTERS = 16;

/**
 * The table with its schema's version as its comment: a hash of everything static in it, so that any two programs whose
 * tables differ in a chain, a rule or the definition of a set have different versions, in both directions of an upgrade.
 */
export function withVersion(table: Omit<Table, "comment">): Table {
  const text = formatTable(table, new Map());
  const version = createHash("sha256").update(text).digest("hex").slice(0, VERSION_CHARACTERS);
  return Object.freeze({ ...table, comment: `${MARK}${version}` });
}

/** Whether a comment is one that a version of ours wrote. */
export function isOurs(comment: string | undefined): boolean {
  return comment?.startsWith(MARK) === true;
}

/** Whether rules alone write a set's elements (affinity): they are neither claimed nor compared. */
export function isWrittenByRules(set: SetDefinition): boolean {
  return set.isDynamic === true;
}
