import type { Element, TableReference } from "../../kernel/nftables/object.ts";

/** One element that something in the cluster (a Service, a pod) wants in one set of one table. */
export interface Claim {
  readonly table: TableReference;
  readonly set: string;
  readonly element: Element;
}

/** A table as a key of a map: "inet drawbridge". */
export type TableKey = string;

/** The key of a table. */
export function tableKey({ family, name }: TableReference): TableKey {
  return `${family} ${name}`;
}

/** Elements of a set by the text of their key (`keyText`). */
export type ElementsByKey = ReadonlyMap<string, Element>;

/** Whether two elements of one key are the same in the kernel: their data and their comment. */
export function isSameElement(a: Element, b: Element): boolean {
  return a.comment === b.comment && dataText(a) === dataText(b);
}

function dataText({ data }: Element): string {
  if (data === undefined) return "";
  if ("kind" in data) return "chain" in data ? `${data.kind} ${data.chain}` : data.kind;
  return data.join("|");
}
