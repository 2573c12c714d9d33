import assert from "node:assert/strict";
import { tableChanges } from "../../../kernel/nftables/encode/change.ts";
import type { Element, Table } from "../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import { formatTable } from "../../../kernel/nftables/text/text.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { normalListing } from "./listing.ts";

/** A table with the elements of its sets. */
interface Content {
  readonly table: Table;
  readonly elements: ReadonlyMap<string, readonly Element[]>;
}

/** Returns nft's listing in normal form. */
export function listing(namespace: LabNamespace): string {
  return normalListing(namespace.ruleset("-y"));
}

/** Replaces the whole ruleset by the text, and returns nft's listing of it in normal form. */
export function loaded(namespace: LabNamespace, text: string): string {
  namespace.exec("nft", ["-f", "-"], `flush ruleset\n${text}`);
  return listing(namespace);
}

/** Returns elements as sorted texts, with numbers of every size as text, and a range of one value as that value. */
function sortedElements(elements: readonly Element[]): readonly string[] {
  return elements
    .map(({ key, data, timeout, comment }) => {
      const fields = key.map((field) =>
        typeof field === "object" && field.first === field.last ? field.first : field,
      );
      return JSON.stringify({ key: fields, data, timeout, comment }, (_name, value: unknown) =>
        typeof value === "bigint" ? `${value}n` : value,
      );
    })
    .toSorted();
}

/**
 * Writes a table by netlink and compares it with nft: the listing equals our text; the text and the listing itself
 * load and list the same; and the elements read back equal those written.
 *
 * @param written the namespace where `nft` is open, whose ruleset is replaced
 * @param other another namespace, in which the texts are loaded
 */
export function assertSame(nft: Nftables, written: LabNamespace, other: LabNamespace, content: Content): void {
  const { table, elements } = content;
  written.exec("nft", ["flush", "ruleset"]);
  nft.commit(tableChanges(table, elements));
  const listed = listing(written);
  assert.equal(listed, normalListing(formatTable(table, elements)), "the listing equals our text");
  assert.equal(loaded(other, formatTable(table, elements)), listed, "our text loads");
  assert.equal(loaded(other, written.ruleset("-y")), listed, "the listing loads");
  assertElements(nft, table, elements);
}

/** Asserts that the elements read back from every set equal those written. */
export function assertElements(nft: Nftables, table: Table, elements: Content["elements"]): void {
  for (const set of table.sets) {
    const found = sortedElements(nft.elements(table, set));
    assert.deepEqual(found, sortedElements(elements.get(set.name) ?? []), set.name);
  }
}
