import assert from "node:assert/strict";
import { tableChanges } from "../../../kernel/nftables/change.ts";
import type { Element, Table } from "../../../kernel/nftables/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import { formatChanges, formatTable } from "../../../kernel/nftables/text.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Content } from "./arbitrary.ts";
import { normalListing } from "./listing.ts";

/** What nft lists, in one form. */
export function listing(namespace: LabNamespace): string {
  return normalListing(namespace.exec("nft", ["-y", "list", "ruleset"]));
}

/** Replaces all there is by what the text says; returns what nft then lists, in one form. */
export function loaded(namespace: LabNamespace, text: string): string {
  namespace.exec("nft", ["-f", "-"], `flush ruleset\n${text}`);
  return listing(namespace);
}

/** Elements in an order of their own, with numbers of every size as text. */
export function sortedElements(elements: readonly Element[]): readonly string[] {
  return elements
    .map(({ key, data, timeout, comment }) =>
      JSON.stringify({ key, data, timeout, comment }, (_name, value: unknown) =>
        typeof value === "bigint" ? `${value}n` : value,
      ),
    )
    .toSorted();
}

/**
 * Writes a table by netlink and holds it against nft: the listing is our text, and the text, the batch as commands and
 * the listing itself load and list the same; reading back gives the elements.
 *
 * @param written where `nft` is open; what is there goes
 * @param other an other namespace, to load texts in
 */
export function assertSame(nft: Nftables, written: LabNamespace, other: LabNamespace, content: Content): void {
  const { table, elements } = content;
  written.exec("nft", ["flush", "ruleset"]);
  nft.commit(tableChanges(table, elements));
  const listed = listing(written);
  assert.equal(listed, normalListing(formatTable(table, elements)), "the listing is our text");
  assert.equal(loaded(other, formatTable(table, elements)), listed, "our text loads");
  assert.equal(loaded(other, formatChanges(tableChanges(table, elements))), listed, "our commands load");
  assert.equal(loaded(other, written.exec("nft", ["-y", "list", "ruleset"])), listed, "the listing loads");
  assertElements(nft, table, elements);
}

/** Reading every set back gives what was written. */
export function assertElements(nft: Nftables, table: Table, elements: Content["elements"]): void {
  for (const set of table.sets) {
    const found = sortedElements(nft.elements(table, set));
    assert.deepEqual(found, sortedElements(elements.get(set.name) ?? []), set.name);
  }
}
