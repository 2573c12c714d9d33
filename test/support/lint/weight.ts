import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import * as v from "valibot";
import { LAYERS } from "./boundaries.ts";

/** The size of one state of the project. */
export interface Weight {
  /** Lines of program text by top-level folder; comments and blank lines count. */
  readonly lines: ReadonlyMap<string, number>;
  readonly promises: number;
  readonly kilobytesOfDocuments: number;
}

/** Returns the sums by top-level folder. @param counted a line for each file, `path:number of lines` */
export function linesByFolder(counted: readonly string[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const [path = "", count] of counted.map((line) => line.split(":"))) {
    const folder = path.slice(0, path.indexOf("/"));
    sums.set(folder, (sums.get(folder) ?? 0) + Number(count));
  }
  return sums;
}

/** Returns a Markdown table of a weight beside an earlier one. */
export function weightTable(before: Weight, now: Weight): string {
  const product = ({ lines }: Weight): number =>
    Object.keys(LAYERS).reduce((sum, folder) => sum + (lines.get(folder) ?? 0), 0);
  const folders = [...new Set([...before.lines.keys(), ...now.lines.keys()])].toSorted();
  const rows: readonly (readonly [string, number, number])[] = [
    ["lines of the product", product(before), product(now)],
    ...folders.map((one) => [`lines of ${one}/`, before.lines.get(one) ?? 0, now.lines.get(one) ?? 0] as const),
    ["promises", before.promises, now.promises],
    ["kilobytes of documents", before.kilobytesOfDocuments, now.kilobytesOfDocuments],
  ];
  const body = rows.map(([what, was, is]) => `| ${what} | ${was} | ${is} | ${is > was ? "+" : ""}${is - was} |\n`);
  return `| | before | now | change |\n|---|---|---|---|\n${body.join("")}`;
}

/** Data for tests are not program text. */
const PROGRAMS = [":(glob)*/**/*.ts", ":(glob)*/**/*.mjs", ":(glob)*/**/*.c", ":(exclude)test/fixtures"];
const PROMISES = "docs/behaviours.md";
const REPORT = "test-results/report.json";
const REPORT_FIELDS = v.object({ files: v.array(v.object({ processorMilliseconds: v.number() })) });

/**
 * Prints what the project weighs beside its last tag, or without any beside the commit before, and the processor time
 * of the last run of the tests.
 */
export function printWeight(): void {
  const before = git("tag", "--sort=-creatordate", "--merged")[0] ?? "HEAD~1";
  console.log(`Beside ${before}:\n\n${weightTable(weightOf(before), weightOf("HEAD"))}`);
  if (!existsSync(REPORT)) return;
  const { files } = v.parse(REPORT_FIELDS, JSON.parse(readFileSync(REPORT, "utf8")));
  const minutes = files.reduce((sum, { processorMilliseconds }) => sum + processorMilliseconds / 60_000, 0);
  console.log(`The last run of the tests took ${minutes.toFixed(1)} minutes of the processors.`);
}

function weightOf(commit: string): Weight {
  const counted = git("grep", "--count", "", commit, "--", ...PROGRAMS).map((line) => line.slice(commit.length + 1));
  const bytes = git("ls-tree", "-r", "--format=%(objectsize) %(path)", commit).filter((line) => line.endsWith(".md"));
  return {
    lines: linesByFolder(counted),
    promises: git("show", `${commit}:${PROMISES}`).filter((line) => /^\* [A-Z][A-Z0-9-]*\d+: /.test(line)).length,
    kilobytesOfDocuments: Math.round(bytes.reduce((sum, line) => sum + Number.parseInt(line, 10), 0) / 1000),
  };
}

function git(...args: readonly string[]): readonly string[] {
  const text = execFileSync("git", args, { encoding: "utf8", maxBuffer: 1 << 26 });
  return text.split("\n").filter((line) => line !== "");
}
