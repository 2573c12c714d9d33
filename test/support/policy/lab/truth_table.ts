/** The mark for one kind of traffic in a cell: allowed, denied, refused where it should be silent, undecided. */
export type Mark = "." | "X" | "R" | "?";

/** A square of senders and receivers, with a mark for each kind of traffic in each cell. */
export interface TruthTable {
  readonly title: string;
  readonly ends: readonly string[];
  readonly traffics: readonly string[];
  readonly mark: (from: string, to: string, traffic: string) => Mark | undefined;
}

/** Counts the cells in which two tables of the same shape differ, as {@link differenceText} shows them. */
export function wrongCells(expected: TruthTable, seen: TruthTable): number {
  return cells(expected).filter(
    ([from, to, traffic]) => expected.mark(from, to, traffic) !== seen.mark(from, to, traffic),
  ).length;
}

/**
 * Returns the expected table, the observed one and their differences, as cyclonus prints them; empty where they agree.
 */
export function differenceText(expected: TruthTable, seen: TruthTable): string {
  const wrong = wrongCells(expected, seen);
  if (wrong === 0) return "";
  const all = cells(expected).length;
  const difference: TruthTable = {
    ...seen,
    mark: (from, to, traffic) => {
      const found = seen.mark(from, to, traffic);
      return found === expected.mark(from, to, traffic) ? undefined : found;
    },
  };
  return [
    `${seen.title}: ${wrong} wrong, ${all - wrong} correct`,
    `Each cell: ${expected.traffics.join(" ")}; . allowed, X denied, R refused, ? not decided; a row sends`,
    "expected",
    tableText(expected),
    "seen",
    tableText(seen),
    "seen where it differs",
    tableText(difference),
  ].join("\n");
}

/** Returns the table as text, with `-` in cells without a mark. */
export function tableText({ ends, traffics, mark }: TruthTable): string {
  const rows = [
    ["", ...ends],
    ...ends.map((from) => [
      from,
      ...ends.map((to) => traffics.map((traffic) => mark(from, to, traffic) ?? "-").join("")),
    ]),
  ];
  const widths = ["", ...ends].map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join(" ")
        .trimEnd(),
    )
    .join("\n");
}

function cells({ ends, traffics }: TruthTable): readonly (readonly [from: string, to: string, traffic: string])[] {
  return ends.flatMap((from) => ends.flatMap((to) => traffics.map((traffic) => [from, to, traffic] as const)));
}
