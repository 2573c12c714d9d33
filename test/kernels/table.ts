import path from "node:path";
import type { GuestResult } from "./guest.ts";

/** The outcomes that a kernel has shown, by subject. */
export interface Row {
  readonly kernel: string;
  readonly cells: ReadonlyMap<string, string>;
}

/** Returns a kernel's row: the subjects of the files in guest/ by the words before the colon, each other file as one. */
export function rowOf(kernel: string, results: readonly GuestResult[]): Row {
  const tests = results.flatMap(({ file, passed, skipped, failed }) => {
    const subject = (title: string): string =>
      file.includes("/guest/") ? (/^\S+ ([\w, ]+): /.exec(title)?.[1] ?? title) : path.basename(file, ".test.ts");
    return [
      ...passed.map((title) => ({ subject: subject(title), outcome: "passed" })),
      ...skipped.map((title) => ({ subject: subject(title), outcome: "skipped" })),
      ...failed.map(({ title }) => ({ subject: subject(title), outcome: "failed" })),
    ];
  });
  const cells = new Map<string, string>();
  for (const [subject, group] of Map.groupBy(tests, (test) => test.subject)) {
    const count = (outcome: string): number => group.filter((test) => test.outcome === outcome).length;
    const works = count("failed") === 0 && count("passed") > 0;
    cells.set(
      subject,
      works ? "works" : count("failed") === 0 ? "not tested" : `fails (${count("failed")} of ${group.length})`,
    );
  }
  return { kernel, cells };
}

/** Returns the rows as a Markdown table, kernels against subjects; what a kernel has not run has a dash. */
export function formatTable(rows: readonly Row[]): string {
  const subjects = [...new Set(rows.flatMap(({ cells }) => [...cells.keys()]))];
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |\n`;
  return [
    line(["kernel", ...subjects]),
    line(["---", ...subjects.map(() => "---")]),
    ...rows.map(({ kernel, cells }) => line([kernel, ...subjects.map((subject) => cells.get(subject) ?? "-")])),
  ].join("");
}
