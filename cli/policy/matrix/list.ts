import { foldLine } from "../../output/fold.ts";
import { formatTable, GAP, widthsOf } from "../../output/table.ts";
import type { CellText } from "./cell.ts";
import { endNames, isMain, type MatrixEnd } from "./end.ts";
import type { Block, Matrix } from "./matrix.ts";

/** The form of a list. */
export interface ListForm {
  readonly columns: number;
  /** Whether to mark repetitions; programs and searches need every line complete. */
  readonly hasDittoMarks: boolean;
  readonly isAllowedOnly: boolean;
  /** The first end of each line: the source or, for a question about who reaches some ends, the destination. */
  readonly first: "from" | "to";
  /** Whether to list only connections with the outside, because a grid has those between pods. */
  readonly isOutsideOnly: boolean;
  /** Whether to list pairs between which nothing may be sent, and to shorten long lists of names. */
  readonly isQuestion: boolean;
}

/** Ends with equal connections to the same others. */
interface Row {
  readonly ends: MatrixEnd[];
  readonly text: string;
  readonly others: readonly MatrixEnd[];
}

const NOTHING = "-";
/** The most names of a list in answers; the other formats have all. */
const MOST_NAMES = 20;

/**
 * Returns a list that says for each end whom it reaches and how, or who reaches it. Ends with the same answer are
 * merged: ten thousand pods of one namespace have one name. A pod with itself, and with its own node, is omitted.
 */
export function formatList(matrix: Matrix, textOf: CellText, form: ListForm): string {
  const names = endNames([...new Set([...matrix.sources, ...matrix.destinations])]);
  const rows = rowsOf(matrix, textOf, form).map(({ ends, text, others }) => ({
    ends: names(ends),
    text,
    others: form.isQuestion ? shortened(names(others)) : names(others),
  }));
  const lines = rows.flatMap(({ ends, text, others }) => {
    const [words, all] = [text === "" ? NOTHING : text, others.join(", ") || NOTHING];
    // Each of the few ends has its own line, so that the column stays as narrow as a name.
    return ends.map((name, i) => (i === 0 || !form.hasDittoMarks ? [name, words, all] : [name, '"', '"']));
  });
  if (lines.length === 0) return "";
  const [head, last] = form.first === "from" ? ["from", "to"] : ["to", "from"];
  const [first = 0, second = 0] = widthsOf([[head, "connections"], ...lines]);
  const room = form.columns - first - second - 2 * GAP;
  const isNarrow = rows.some(({ others }) => others.some((name) => name.length >= room));
  return isNarrow ? formatNarrow(rows, form) : formatTable([head, "connections", last], lines, form.columns);
}

/** Returns the same list for terminals that are too narrow for three names side by side. */
function formatNarrow(
  rows: readonly { readonly ends: readonly string[]; readonly text: string; readonly others: readonly string[] }[],
  { columns, first }: ListForm,
): string {
  const word = first === "from" ? "to" : "from";
  return rows
    .map(({ ends, text, others }) => {
      const words = text === "" ? "nothing" : text;
      const connections = others.length === 0 ? "nothing" : `${words} ${word} ${others.join(", ")}`;
      return foldLine(ends.join(", "), columns, 0, 2) + foldLine(connections, columns, 4, 6);
    })
    .join("");
}

function rowsOf(matrix: Matrix, textOf: CellText, form: ListForm): readonly Row[] {
  const isFrom = form.first === "from";
  const [chosen, across] = isFrom ? [matrix.sources, matrix.destinations] : [matrix.destinations, matrix.sources];
  const [ends, others] = [within(matrix.blocks, chosen), within(matrix.blocks, across)];
  const textBetween = (one: MatrixEnd, other: MatrixEnd): string =>
    textOf(isFrom ? matrix.between(one, other) : matrix.between(other, one));
  const rows = new Map<string, Row>();
  for (const block of ends) {
    const reached = reachedBy(matrix, block, others, { form, textBetween });
    const isListedEmpty = !form.isAllowedOnly && !form.isOutsideOnly && block[0].kind !== "other pods";
    if (reached.size === 0 && isListedEmpty) reached.set("", []);
    for (const [text, to] of inOrder(reached)) {
      const key = `${text} ${to.join()}`;
      const known = rows.get(key);
      if (known === undefined) rows.set(key, { ends: [...block], text, others: to.flatMap((i) => others[i] ?? []) });
      else known.ends.push(...block);
    }
  }
  return [...rows.values()];
}

/** Returns the indexes of the others to which the ends of a block have the same connections, by these as text. */
function reachedBy(
  matrix: Matrix,
  block: Block,
  others: readonly Block[],
  { form, textBetween }: { readonly form: ListForm; readonly textBetween: (a: MatrixEnd, b: MatrixEnd) => string },
): Map<string, number[]> {
  const reached = new Map<string, number[]>();
  for (const [i, other] of others.entries()) {
    if (!isListed(block[0], other[0], form)) continue;
    const pair = strangers(matrix, block, other);
    if (pair === undefined) continue;
    const text = textBetween(...pair);
    if (text === "" && (!form.isQuestion || form.isAllowedOnly)) continue;
    const known = reached.get(text);
    if (known === undefined) reached.set(text, [i]);
    else known.push(i);
  }
  // A pod that is the only one of its kind counts as reaching itself; otherwise "all pods" would never include it.
  const [own, ...more] = block;
  if (form.isOutsideOnly || own.kind !== "pods" || more.length > 0 || !matrix.areOwn(own, own)) return reached;
  const place = others.findIndex(([other]) => other === own);
  if (place >= 0) addInOrder(reached.get(textBetween(own, own)), place);
  return reached;
}

/** Returns whether the pairs of two blocks are in the list; all ends of a block are of one kind. */
function isListed(one: MatrixEnd, other: MatrixEnd, { isOutsideOnly }: ListForm): boolean {
  if (!isMain(one) && !isMain(other)) return false;
  return !isOutsideOnly || isOutside(one.kind) || isOutside(other.kind);
}

function isOutside(kind: MatrixEnd["kind"]): boolean {
  return kind === "outside" || kind === "way in";
}

/** Returns the connections in the order of the list, with nothing as the last. */
function inOrder(reached: ReadonlyMap<string, number[]>): readonly (readonly [string, readonly number[]])[] {
  return [...reached].sort(([a], [b]) => Number(a === "") - Number(b === ""));
}

/** Returns the parts of some blocks that are among the ends in question. */
function within(blocks: readonly Block[], ends: readonly MatrixEnd[]): readonly Block[] {
  const asked = new Set(ends);
  return blocks.flatMap((block): readonly Block[] => {
    const [first, ...more] = block.filter((end) => asked.has(end));
    return first === undefined ? [] : [[first, ...more]];
  });
}

function addInOrder(numbers: number[] | undefined, number: number): void {
  numbers?.push(number);
  numbers?.sort((a, b) => a - b);
}

/** Returns two ends of the blocks to represent all that are not special to each other; undefined without any. */
function strangers(matrix: Matrix, some: Block, others: Block): readonly [MatrixEnd, MatrixEnd] | undefined {
  for (const one of some) {
    for (const other of others) if (!matrix.areOwn(one, other)) return [one, other];
  }
  return undefined;
}

function shortened(names: readonly string[]): readonly string[] {
  const left = names.length - MOST_NAMES;
  return left > 0 ? [...names.slice(0, MOST_NAMES), `and ${left} more (-o json has all)`] : names;
}
