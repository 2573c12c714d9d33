import { foldLine } from "../../output/fold.ts";
import { formatTable, GAP, widthsOf } from "../../output/table.ts";
import type { CellText } from "./cell.ts";
import type { MatrixEnd } from "./end.ts";
import { EndNames } from "./end.ts";
import type { Block, Matrix } from "./matrix.ts";

/** How a list is printed. */
export interface ListForm {
  readonly columns: number;
  /** Marks for "as above" are for people; programs and searches want every line whole. */
  readonly hasDittoMarks: boolean;
  readonly isAllowedOnly: boolean;
  /** The end that each line begins with: the source, or of the question who reaches some ends the destination. */
  readonly first: "from" | "to";
  /** Whether only connections with the outside are listed: those of the pods are in a grid. */
  readonly isOutsideOnly: boolean;
  /** Whether ends between which nothing may be sent are listed, and long lists of names cut. */
  readonly isQuestion: boolean;
}

/** Ends that have the same connections with the same others. */
interface Row {
  readonly ends: MatrixEnd[];
  readonly text: string;
  readonly others: readonly MatrixEnd[];
}

const NOTHING = "-";
/** Longer lists of names are cut in answers; the other formats have all. */
const MOST_NAMES = 20;

/**
 * For each end whom it reaches by what, or who reaches it, and those with the same answer together: ten thousand pods of
 * one namespace are one name. A pod and itself, and a pod and its own node are left out.
 */
export function formatList(matrix: Matrix, textOf: CellText, form: ListForm): string {
  const names = new EndNames([...new Set([...matrix.sources, ...matrix.destinations])]);
  const rows = rowsOf(matrix, textOf, form).map(({ ends, text, others }) => ({
    ends: names.of(ends),
    text,
    others: form.isQuestion ? shortened(names.of(others)) : names.of(others),
  }));
  const lines = rows.flatMap(({ ends, text, others }) => {
    const [words, all] = [text === "" ? NOTHING : text, others.join(", ") || NOTHING];
    // One line for each of the few ends, so that the column stays as narrow as a name.
    return ends.map((name, i) => (i === 0 || !form.hasDittoMarks ? [name, words, all] : [name, '"', '"']));
  });
  if (lines.length === 0) return "";
  const [head, last] = form.first === "from" ? ["from", "to"] : ["to", "from"];
  const [first = 0, second = 0] = widthsOf([[head, "connections"], ...lines]);
  const room = form.columns - first - second - 2 * GAP;
  const isNarrow = rows.some(({ others }) => others.some((name) => name.length >= room));
  return isNarrow ? formatNarrow(rows, form) : formatTable([head, "connections", last], lines, form.columns);
}

/** The same for screens on which three names side by side find no room. */
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
    if (reached.size === 0 && !form.isAllowedOnly && !form.isOutsideOnly) reached.set("", []);
    for (const [text, to] of inOrder(reached)) {
      const key = `${text} ${to.join()}`;
      const known = rows.get(key);
      if (known === undefined) rows.set(key, { ends: [...block], text, others: to.flatMap((i) => others[i] ?? []) });
      else known.ends.push(...block);
    }
  }
  return [...rows.values()];
}

/** The places of those others with which the ends of a block have the same connections, by these in words. */
function reachedBy(
  matrix: Matrix,
  block: Block,
  others: readonly Block[],
  { form, textBetween }: { readonly form: ListForm; readonly textBetween: (a: MatrixEnd, b: MatrixEnd) => string },
): Map<string, number[]> {
  const reached = new Map<string, number[]>();
  for (const [i, other] of others.entries()) {
    const pair = strangers(matrix, block, other);
    if (pair === undefined || !isListed(pair, form)) continue;
    const text = textBetween(...pair);
    if (text === "" && (!form.isQuestion || form.isAllowedOnly)) continue;
    const known = reached.get(text);
    if (known === undefined) reached.set(text, [i]);
    else known.push(i);
  }
  // A pod alone of its kind, with what it reaches as it does itself: else "all pods" would never be for it.
  const [own, ...more] = block;
  if (more.length > 0 || !matrix.areOwn(own, own)) return reached;
  const place = others.findIndex(([other]) => other === own);
  if (place >= 0) addInOrder(reached.get(textBetween(own, own)), place);
  return reached;
}

function isListed(pair: readonly MatrixEnd[], { isOutsideOnly }: ListForm): boolean {
  const has = (kind: MatrixEnd["kind"]): boolean => pair.some((end) => end.kind === kind);
  return has("pods") && (!isOutsideOnly || has("outside") || has("way in"));
}

/** The connections as they are listed: nothing comes last. */
function inOrder(reached: ReadonlyMap<string, number[]>): readonly (readonly [string, readonly number[]])[] {
  return [...reached].sort(([a], [b]) => Number(a === "") - Number(b === ""));
}

/** As much of some blocks as is among the ends asked about. */
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

/** Two ends of the blocks that stand for all that are not each other's own; undefined where there are none. */
function strangers(matrix: Matrix, some: Block, others: Block): readonly [MatrixEnd, MatrixEnd] | undefined {
  for (const one of some) {
    const other = others.find((end) => !matrix.areOwn(one, end));
    if (other !== undefined) return [one, other];
  }
  return undefined;
}

function shortened(names: readonly string[]): readonly string[] {
  const left = names.length - MOST_NAMES;
  return left > 0 ? [...names.slice(0, MOST_NAMES), `and ${left} more (-o wide has all)`] : names;
}
