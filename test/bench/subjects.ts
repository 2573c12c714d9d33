import { createLab, type Lab } from "../lab/lab.ts";
import { thisMachine } from "./machine.ts";
import { publishReport } from "./report.ts";
import type { Row } from "./row.ts";

/** Reports a step of a measurement. */
export type Progress = (step: string) => void;

/**
 * Measures one subject of a benchmark in a lab of its own; the lab `home` is that of the whole benchmark, for costly
 * preparations that several subjects use.
 */
export type Subject = (lab: Lab, progress: Progress, home: Lab) => Promise<readonly Row[]> | readonly Row[];

/** The subjects of a benchmark by their names for `--only`, in the order of their measurement. */
export type Subjects = Readonly<Record<string, Subject>>;

/** The subjects that are meant, all when absent. */
export interface Wanted {
  readonly only?: readonly string[] | undefined;
}

/**
 * Measures the subjects of a benchmark, prints a table and leaves JSON.
 *
 * @param programs the versions of the programs that are compared, in addition to that of nft
 */
export async function measureSubjects(
  name: string,
  subjects: Subjects,
  { only }: Wanted,
  progress: Progress,
  programs: readonly string[] = [],
): Promise<void> {
  const machine = thisMachine();
  const started = performance.now();
  const rows: Row[] = [];
  using home = createLab(`bench-${name}`);
  const nft = home.namespace("nft").exec("nft", ["--version"]).trim();
  for (const [subject, measure] of Object.entries(subjects)) {
    if (only?.includes(subject) === false) continue;
    progress(subject);
    using lab = createLab(`bench-${name}-${subject}`);
    rows.push(...(await measure(lab, (step) => progress(`${subject}: ${step}`), home)));
  }
  const seconds = Math.round((performance.now() - started) / 1000);
  publishReport(name, { machine, programs: [...programs, nft].join("; "), seconds, rows });
}
