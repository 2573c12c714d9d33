import type { TestResult } from "./result.ts";

/** A line of `go test -v` for a test that starts or continues to write. */
const WRITES = /^=== (?:RUN {3}|NAME {2}|CONT {2}|PAUSE )(?<name>\S+)$/;
/** Its line for the outcome of a test. */
const ENDED = /^ *--- (?<state>PASS|FAIL|SKIP): (?<name>\S+) \((?<seconds>[0-9.]+)s\)$/;

interface End {
  readonly state: TestResult["state"];
  readonly seconds: number;
}

interface Entry {
  readonly name: string;
  readonly lines: string[];
  end?: End;
}

/**
 * Reads the output of a Go test program that was run with -test.v, even a killed one.
 *
 * @param root the test function, whose name the titles omit
 * @returns the tests without subtests, in the order in which they started. A test with subtests is a result only if it
 *   failed and none of them did, or if it skipped itself or ended before them.
 */
export function readGoTest(output: string, root: string): readonly TestResult[] {
  const entries = readEntries(output);
  const failed = (name: string): boolean =>
    [...entries.values()].some((one) => one.name.startsWith(`${name}/`) && stateOf(one) === "failed");
  const hasSubtests = new Set([...entries.keys()].map((name) => name.slice(0, Math.max(0, name.lastIndexOf("/")))));
  return [...entries.values()]
    .filter((one) => !hasSubtests.has(one.name) || (stateOf(one) === "failed" && !failed(one.name)))
    .map((one) => ({
      title: one.name === root ? root : one.name.slice(root.length + 1),
      state: stateOf(one),
      message: messageOf(one),
      duration: one.end?.seconds ?? 0,
    }));
}

function readEntries(output: string): ReadonlyMap<string, Entry> {
  const entries = new Map<string, Entry>();
  let current: Entry | undefined;
  for (const line of output.split("\n")) {
    const about = readLine(line);
    if (about === undefined) {
      current?.lines.push(line);
      continue;
    }
    current = entries.get(about.name) ?? { name: about.name, lines: [] };
    if (about.end !== undefined) current.end = about.end;
    entries.set(about.name, current);
  }
  return entries;
}

/** Returns the test that a line of `go test` is about, and its outcome; undefined for a test's own output. */
function readLine(line: string): { readonly name: string; readonly end?: End } | undefined {
  const name = WRITES.exec(line)?.groups?.["name"];
  if (name !== undefined) return { name };
  const ended = ENDED.exec(line)?.groups;
  if (ended === undefined) return undefined;
  const { name: test = "", state = "", seconds = "" } = ended;
  return { name: test, end: { state: STATES[state] ?? "failed", seconds: Number(seconds) } };
}

const STATES: Readonly<Record<string, TestResult["state"]>> = { PASS: "passed", FAIL: "failed", SKIP: "skipped" };

/** Returns a test's state. A test without an end was interrupted by a panic, or by the end of the program. */
function stateOf({ end }: Entry): TestResult["state"] {
  return end?.state ?? "failed";
}

function messageOf(entry: Entry): string {
  // The program may write more after its last test, such as the text of a panic: this counts as that test's output.
  if (stateOf(entry) === "passed") return "";
  const text = entry.lines.map((line) => line.trim()).join("\n");
  return entry.end === undefined ? `did not end\n${text}`.trim() : text.trim();
}
