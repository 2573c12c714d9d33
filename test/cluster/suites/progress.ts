import { stateOf, type TestResult } from "./result.ts";

/** The separator of tests in Ginkgo's output. */
const SEPARATOR = /^-{30}$/m;

/** Ginkgo's line for a test that ended, and the one after it. */
const ENDED = /^(?:•|S) (?:\[(?<end>[A-Z]+)!?\] )?\[(?<seconds>[0-9.]+) seconds\]\n(?<next>.*)$/m;

/** An ended test, as far as Ginkgo's output shows: without the message of a failure. */
export type EndedTest = Omit<TestResult, "message">;

/**
 * Reads the ended tests from the output of a run that is unfinished or was killed. Ignores lines that are not a title
 * of the list.
 *
 * @param titles of the tests that run
 */
export function readEndedTests(output: string, titles: readonly string[]): readonly EndedTest[] {
  const known = new Set(titles);
  return output.split(SEPARATOR).flatMap((block) => {
    const groups = ENDED.exec(block)?.groups;
    if (groups === undefined) return [];
    // With several processes, the title comes after that line; with one, it is the block's first line.
    const lines = [groups["next"] ?? "", block.trimStart().split("\n", 1)[0] ?? ""];
    const title = lines.map((line) => titleIn(withoutPart(line), known)).find((one) => one !== undefined);
    return title === undefined
      ? []
      : [{ title, state: stateOf((groups["end"] ?? "passed").toLowerCase()), duration: Number(groups["seconds"]) }];
  });
}

/**
 * Removes the failed part of a test from a failure's line: [It], [BeforeEach] and so on are somewhere within the title.
 */
function withoutPart(line: string): string {
  return line.replace(/ \[(?:It|BeforeEach|AfterEach|DeferCleanup[^\]]*)\](?= )/, "");
}

/** Returns the title in a line, which may end with labels in brackets; a title can end with brackets, too. */
function titleIn(line: string, known: ReadonlySet<string>): string | undefined {
  if (known.has(line)) return line;
  const start = line.lastIndexOf(" [");
  return start === -1 ? undefined : titleIn(line.slice(0, start), known);
}

/** Describes the progress of a run in a line. */
export function describeProgress(ended: readonly EndedTest[], total: number): string {
  const failed = ended.filter(({ state }) => state === "failed").map(({ title }) => title);
  const names = failed.length === 0 ? "" : `: ${failed.join("; ")}`;
  return `${ended.length} of ${total} tests ended, ${failed.length} failed${names}`;
}
