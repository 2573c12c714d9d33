import type { Group } from "../../cluster/group.ts";
import { groupName } from "../../cluster/group.ts";
import { foldLine } from "../../output/fold.ts";
import { formatTable, GAP, widthsOf } from "../../output/table.ts";
import type { CellText } from "./cell.ts";
import type { Block, Matrix } from "./matrix.ts";

/** Sources that reach the same destinations by the same connections. */
interface Row {
  readonly from: Group[];
  readonly text: string;
  readonly to: readonly Group[];
}

/**
 * For each group whom it reaches by what, and those that reach the same together: ten thousand pods of one namespace are
 * one name. A pod and itself, and a pod and its own node are left out.
 */
export function formatList(matrix: Matrix, textOf: CellText, columns: number): string {
  const names = new Names(matrix.groups);
  const rows = rowsOf(matrix, textOf).map(({ from, text, to }) => ({ from: names.of(from), text, to: names.of(to) }));
  const lines = rows.flatMap(({ from, text, to }) => {
    const destinations = to.join(", ") || "-";
    // One line for each of the few sources, so that the column stays as narrow as a name.
    return from.map((name, i) => (i === 0 ? [name, text, destinations] : [name, '"', '"']));
  });
  const [first = 0, second = 0] = widthsOf(lines);
  const room = columns - first - second - 2 * GAP;
  const isNarrow = rows.some(({ to }) => to.some((name) => name.length >= room));
  return isNarrow ? formatNarrow(rows, columns) : formatTable(["from", "connections", "to"], lines, columns);
}

/** The same for screens on which three names side by side find no room. */
function formatNarrow(
  rows: readonly { readonly from: readonly string[]; readonly text: string; readonly to: readonly string[] }[],
  columns: number,
): string {
  return rows
    .map(({ from, text, to }) => {
      const connections = to.length === 0 ? "nothing" : `${text} to ${to.join(", ")}`;
      return foldLine(from.join(", "), columns, 0, 2) + foldLine(connections, columns, 4, 6);
    })
    .join("");
}

function rowsOf(matrix: Matrix, textOf: CellText): readonly Row[] {
  const rows = new Map<string, Row>();
  for (const [number, from] of matrix.blocks.entries()) {
    const reached = new Map<string, number[]>();
    for (const [i, to] of matrix.blocks.entries()) {
      const pair = strangers(matrix, from, to);
      const text = pair === undefined ? "" : textOf(matrix.between(...pair));
      if (text === "") continue;
      const known = reached.get(text);
      if (known === undefined) reached.set(text, [i]);
      else known.push(i);
    }
    // A pod alone of its kind, with what it reaches as it does itself: else "all pods" would never be for it.
    const [own, ...others] = from;
    if (others.length === 0 && matrix.areOwn(own, own))
      addInOrder(reached.get(textOf(matrix.between(own, own))), number);
    if (reached.size === 0) reached.set("-", []);
    for (const [text, to] of reached) {
      const key = `${text} ${to.join()}`;
      const known = rows.get(key);
      if (known === undefined) rows.set(key, { from: [...from], text, to: to.flatMap((i) => matrix.blocks[i] ?? []) });
      else known.from.push(...from);
    }
  }
  return [...rows.values()];
}

function addInOrder(numbers: number[] | undefined, number: number): void {
  numbers?.push(number);
  numbers?.sort((a, b) => a - b);
}

/** Two groups of the blocks that stand for all that are not each other's own; undefined where there are none. */
function strangers(matrix: Matrix, from: Block, to: Block): readonly [Group, Group] | undefined {
  for (const source of from) {
    const destination = to.find((group) => !matrix.areOwn(source, group));
    if (destination !== undefined) return [source, destination];
  }
  return undefined;
}

/** Names for several groups: where all of a workload or a namespace are among them, its name alone. */
class Names {
  readonly #size: number;
  readonly #wholes = new Map<string, number>();

  constructor(groups: readonly Group[]) {
    this.#size = groups.length;
    for (const whole of groups.flatMap(wholesOf)) this.#wholes.set(whole, (this.#wholes.get(whole) ?? 0) + 1);
  }

  of(groups: readonly Group[]): readonly string[] {
    if (groups.length === this.#size && this.#size > 1) return ["all pods"];
    const present = Map.groupBy(groups.flatMap(wholesOf), (whole) => whole);
    const isWhole = (whole: string): boolean => {
      const count = present.get(whole)?.length ?? 0;
      return count > 1 && count === this.#wholes.get(whole);
    };
    return [...new Set(groups.map((group) => wholesOf(group).find(isWhole) ?? group.name))].toSorted();
  }
}

/** What a group is a part of, the largest first. */
function wholesOf({ name, pods: [pod] }: Group): readonly string[] {
  const workload = groupName(pod, "workload");
  return workload === name ? [`${pod.namespace}/*`] : [`${pod.namespace}/*`, workload];
}
