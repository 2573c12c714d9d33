import process from "node:process";
import Mocha from "mocha";
import { processorSeconds } from "../bench/process_usage.ts";
import { endProcesses, leftoverProcesses } from "../support/leftover.ts";
import { takeLongForms } from "../support/long_form.ts";
import type { FileResult, TestResult } from "./result.ts";

/**
 * A process that runs the test files which the pool sends it, one after another, and reports the result of each. It
 * ends when the pool disconnects.
 */

/** The message of the pool: a file to run, and which tests of it. */
export interface Assignment {
  readonly file: string;
  readonly grep: string | undefined;
  readonly forbidOnly: boolean;
}

/** The grace period in milliseconds for processes that a test has asked to end. */
const GRACE = 1000;
/**
 * A test may take this many times its time limit: the limits are those of a test that has the processor for itself.
 */
const PATIENCE = 4;
/** Milliseconds; for tests that set no limit. */
const LIMIT = 20_000;

const { EVENT_HOOK_BEGIN, EVENT_TEST_BEGIN, EVENT_TEST_FAIL, EVENT_TEST_PASS, EVENT_TEST_PENDING } =
  Mocha.Runner.constants;

/** The file after which a resource was first open, by its kind and its place among those of its kind. */
const firstOpenAfter = new Map(openResources().map((resource) => [resource, "its start"]));
/** Milliseconds after the pool has disconnected. */
const EXPECTED_END = 2000;

process.on("message", (assignment: Assignment) => void answer(assignment));

/** Returns the resources that keep this process from ending: "Timeout 1", "Timeout 2". */
function openResources(): readonly string[] {
  const counts = new Map<string, number>();
  return process.getActiveResourcesInfo().map((kind) => {
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    return `${kind} ${count}`;
  });
}

async function answer(assignment: Assignment): Promise<void> {
  const result = await runFile(assignment);
  for (const resource of openResources()) {
    if (!firstOpenAfter.has(resource)) firstOpenAfter.set(resource, assignment.file);
  }
  process.send?.(result);
}

process.on("disconnect", () => {
  const timer = setTimeout(() => {
    for (const resource of openResources()) {
      process.stderr.write(`${resource}, open since ${firstOpenAfter.get(resource) ?? "the end"}\n`);
    }
  }, EXPECTED_END);
  timer.unref();
});

/** Runs a file's tests and returns their results; a file that cannot be loaded is a problem. */
async function runFile({ file, grep, forbidOnly }: Assignment): Promise<FileResult> {
  const start = performance.now();
  const processorStart = processorSeconds(process.pid);
  const tests: TestResult[] = [];
  const problems: string[] = [];
  const mocha = new Mocha({
    timeout: LIMIT,
    forbidOnly,
    reporter: SilentReporter,
    ...(grep === undefined ? {} : { grep }),
  });
  mocha.addFile(file);
  try {
    await mocha.loadFilesAsync();
    await runLoaded(mocha, tests);
  } catch (error) {
    problems.push(`it cannot be run: ${textOf(error)}`);
  }
  problems.push(...(await endLeftovers()));
  return {
    file,
    tests,
    problems,
    longForms: takeLongForms(),
    milliseconds: Math.round(performance.now() - start),
    processorMilliseconds: Math.round(1000 * (processorSeconds(process.pid) - processorStart)),
    megabytes: Math.round(process.memoryUsage.rss() / 1e6),
  };
}

function runLoaded(mocha: Mocha, tests: TestResult[]): Promise<void> {
  return new Promise((resolve) => {
    const runner = mocha.run(() => {
      // Otherwise its listeners for exceptions stay, and it takes those of later files for its own.
      runner.dispose();
      resolve();
    });
    extendLimits(runner);
    const note = (test: Mocha.Runnable, outcome: TestResult["outcome"], error?: unknown): void => {
      const isHook = test instanceof Mocha.Hook ? { isHook: true as const } : {};
      const result = { fullTitle: test.fullTitle(), outcome, milliseconds: test.duration ?? 0, ...isHook };
      tests.push(error === undefined ? result : { ...result, error: textOf(error) });
    };
    runner.on(EVENT_TEST_PASS, (test) => note(test, "passed"));
    runner.on(EVENT_TEST_PENDING, (test) => note(test, "skipped"));
    runner.on(EVENT_TEST_FAIL, (test, error) => note(test, "failed", error));
  });
}

/** Extends the limit of each test and hook once, before it runs; a limit of 0 stays "none". */
function extendLimits(runner: Mocha.Runner): void {
  const extended = new Set<Mocha.Runnable>();
  const extend = (runnable: Mocha.Runnable): void => {
    if (extended.has(runnable)) return;
    extended.add(runnable);
    runnable.timeout(PATIENCE * runnable.timeout());
  };
  runner.on(EVENT_TEST_BEGIN, extend);
  runner.on(EVENT_HOOK_BEGIN, extend);
}

/** Ends processes that tests have left running, and names them: they may hold a namespace. */
async function endLeftovers(): Promise<readonly string[]> {
  const leftovers = await leftoverProcesses(GRACE);
  endProcesses(leftovers);
  return leftovers.map(({ pid, commandLine }) => `it left a process running: ${pid} ${commandLine}`);
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? String(error)) : String(error);
}

/** Prints nothing: the pool's process prints. */
class SilentReporter extends Mocha.reporters.Base {}
