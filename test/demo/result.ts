/** The cells of a table: the expected text of each, and the measured one. */
export interface Chart {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly { readonly name: string; readonly cells: readonly Cell[] }[];
}

export interface Cell {
  readonly expected: string;
  readonly seen: string;
  readonly isGood: boolean;
}

/** A statement about what was measured, and whether it is as expected. */
export interface Check {
  readonly isGood: boolean;
  readonly text: string;
  /** Lines that say more; those of a check that is not good say what is wrong. */
  readonly details?: readonly string[];
}

/** Everything that the demo measured, as plain data. */
export interface DemoResult {
  /** The thing that `--break` removed. */
  readonly broken: string | undefined;
  /** Each pod with its node, addresses and the milliseconds of its ADD and DEL. */
  readonly pods: readonly (readonly string[])[];
  readonly charts: readonly Chart[];
  /** What each policy allows, in words. */
  readonly policies: readonly string[];
  readonly checks: readonly Check[];
  readonly milliseconds: number;
}

/** Returns a cell that has to have exactly the expected text. */
export function exactly(expected: string, seen: string): Cell {
  return { expected, seen, isGood: expected === seen };
}

/** Returns a line for each cell that is not as expected. */
export function differencesOf(charts: readonly Chart[]): readonly string[] {
  return charts.flatMap(({ title, columns, rows }) =>
    rows.flatMap(({ name, cells }) =>
      cells.flatMap(({ expected, seen, isGood }, i) =>
        isGood ? [] : [`${title.split(":")[0]}: ${name}, ${columns[i]}: expected ${expected}, saw ${seen}`],
      ),
    ),
  );
}

/** Whether everything was as expected. */
export function isAsExpected({ checks }: DemoResult): boolean {
  return checks.every(({ isGood }) => isGood);
}
