import type { TestResult } from "./result.ts";
import { stateOf } from "./result.ts";

/** Between the tests of Ginkgo's output. */
const SEPARATOR = /^-{30}$/m;

/** Ginkgo's line for a test that ended, and the one after it. */
const ENDED = /^(?:•|S) (?:\[(?<end>[A-Z]+)!?\] )?\[(?<seconds>[0-9.]+) seconds\]\n(?<next>.*)$/m;

/** A test that ended, as far as Ginkgo's output tells: without the message of a failure. */
export type EndedTest = Omit<TestResult, "message">;

/**
 * Reads from the output of a run that has not ended, or was killed, which tests have ended. A line that is not a title of the
 * list is passed over.
 *
 * @param titles of the tests that run
 */
export function readEndedTests(output: string, titles: readonly string[]): readonly EndedTest[] {
  const known = new Set(titles);
  return output.split(SEPARATOR).flatMap((block) => {
    const groups = ENDED.exec(block)?.groups;
    if (groups === undefined) return [];
    // The title is after that line where several processes run the tests, and on the block's first line where one does.
    const lines = [groups["next"] ?? "", block.trimStart().split("\n", 1)[0] ?? ""];
    const title = lines.map((line) => titleIn(withoutPart(line), known)).find((one) => one !== undefined);
    return title === undefined
      ? []
      : [{ title, state: stateOf((groups["end"] ?? "passed").toLowerCase()), duration: Number(groups["seconds"]) }];
  });
}

/** A failure's line also says which of the test's parts failed: [It], [BeforeEach] and so on stand somewhere within the title. */
function withoutPart(line: string): string {
  return line.replace(/ \[(?:It|BeforeEach|AfterEach|DeferCleanup[^\]]*)\](?= )/, "");
}

/** The line is the title, and labels in brackets when the test has some; a title can end with brackets, too. */
function titleIn(line: string, known: ReadonlySet<string>): string | undefined {
  if (known.has(line)) return line;
  const start = line.lastIndexOf(" [");
  return start === -1 ? undefined : titleIn(line.slice(0, start), known);
}

/** Returns the line that says how far a run is. */
export function describeProgress(ended: readonly EndedTest[], total: number): string {
  const failed = ended.filter(({ state }) => state === "failed").map(({ title }) => title);
  const names = failed.length === 0 ? "" : `: ${failed.join("; ")}`;
  return `${ended.length} of ${total} tests ended, ${failed.length} failed${names}`;
}
