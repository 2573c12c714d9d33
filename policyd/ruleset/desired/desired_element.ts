import type { Element, TableReference } from "../../../kernel/nftables/model/object.ts";
import type { Verdict } from "../../../kernel/nftables/model/statement.ts";
import type { PackedElement } from "./packed_element.ts";

/** One element that something in the cluster (a Service, a pod) wants in one set of one table. */
export interface DesiredElement {
  readonly table: TableReference;
  readonly set: string;
  readonly element: Element;
}

/** A table as a key of a map: "inet drawbridge". */
export type TableKey = string;

const known = new WeakMap<TableReference, TableKey>();

/** Returns the key of a table, as one string for each object: tens of thousands of elements share a few. */
export function tableKey(table: TableReference): TableKey {
  let key = known.get(table);
  if (key === undefined) known.set(table, (key = `${table.family} ${table.name}`));
  return key;
}

/** Elements of a set by the texts of their keys (`keyText`). */
export type ElementsByKey = ReadonlyMap<string, PackedElement>;

/** Whether two elements with the same key are the same in the kernel: their data and their comment. */
export function isSameElement(a: Element, b: Element): boolean {
  return a.comment === b.comment && isSameData(a.data, b.data);
}

/** Compares fields instead of texts, since tens of thousands of elements are compared. */
function isSameData(a: Element["data"], b: Element["data"]): boolean {
  if (a === undefined || b === undefined) return a === b;
  if ("kind" in a) return "kind" in b && verdictText(a) === verdictText(b);
  if ("kind" in b || a.length !== b.length) return false;
  for (const [index, value] of a.entries()) if (value !== b[index]) return false;
  return true;
}

function verdictText(verdict: Verdict): string {
  return "chain" in verdict ? `${verdict.kind} ${verdict.chain}` : verdict.kind;
}
