import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import Mocha from "mocha";
import { stolenMilliseconds } from "../run/stolen.ts";
import { endProcesses, leftoverProcesses } from "./leftover.ts";
import { machineChanges, machineState } from "./machine_state.ts";
import { countReasons, REPORT, type Report, reportedTest, skipReason } from "./report.ts";

/** The grace period in milliseconds for processes that a test has asked to end. */
const GRACE = 1000;

const { EVENT_TEST_END, EVENT_TEST_FAIL, EVENT_TEST_PASS, EVENT_TEST_PENDING } = Mocha.Runner.constants;

/**
 * Prints mocha's `spec` output for people and the reasons of skipped tests, and writes the JSON report
 * test-results/report.json for programs.
 *
 * Mocha loads a reporter by its default export and cannot run two at once.
 */
export default class Reporter extends Mocha.reporters.Spec {
  readonly #tests: Mocha.Test[] = [];
  readonly #passes: Mocha.Test[] = [];
  readonly #pending: Mocha.Test[] = [];
  /** The stolen time of each failure of `failures`, in their order ({@link ReportedFailure}). */
  readonly #stolen: number[] = [];
  #stolenBefore = stolenMilliseconds();
  readonly #machineBefore = machineState();

  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    removeOldReport();
    runner.on(EVENT_TEST_FAIL, () => this.#stolen.push(stolenMilliseconds() - this.#stolenBefore));
    runner.on(EVENT_TEST_END, (test) => {
      this.#tests.push(test);
      this.#stolenBefore = stolenMilliseconds();
    });
    runner.on(EVENT_TEST_PASS, (test) => this.#passes.push(test));
    runner.on(EVENT_TEST_PENDING, (test) => this.#pending.push(test));
  }

  override done(failures: number, finish: (failures: number) => void): void {
    void this.#conclude().then((further) => finish(failures + further));
  }

  /** Prints what follows mocha's own summary, and returns the number of failures in addition to those of tests. */
  async #conclude(): Promise<number> {
    this.#printReasons();
    const leftovers = (await this.#endLeftovers()) + this.#printMachineChanges();
    return leftovers + this.#writeReport(leftovers);
  }

  /** Ends processes that tests have left running: they would keep this process from ending and may hold a namespace. */
  async #endLeftovers(): Promise<number> {
    const leftovers = await leftoverProcesses(GRACE);
    if (leftovers.length === 0) return 0;
    print("  Still running after the tests, ended now, and counted as one failure:");
    for (const { pid, commandLine } of leftovers) print(`    ${pid} ${commandLine}`);
    print("");
    endProcesses(leftovers);
    return 1;
  }

  /**
   * Prints changes of the machine: tests may change only what they have made themselves, such as namespaces and
   * directories.
   */
  #printMachineChanges(): number {
    const changes = machineChanges(this.#machineBefore, machineState());
    if (changes.length === 0) return 0;
    print("  The machine is not as it was before the tests, which counts as one failure:");
    for (const change of changes) print(`    ${change}`);
    print("");
    return 1;
  }

  #printReasons(): void {
    const reasons = countReasons(this.#pending.map((test) => test.title));
    if (reasons.size === 0) return;
    print("  Skipped:");
    for (const [reason, count] of reasons) print(`    ${count} × ${reason}`);
    print("");
  }

  #writeReport(furtherFailures: number): number {
    const report: Report = {
      stats: { ...this.stats },
      tests: this.#tests.map(reportedTest),
      pending: this.#pending.map((test) => ({ ...reportedTest(test), reason: skipReason(test.title) })),
      failures: this.failures.map((test, index) => ({
        ...reportedTest(test),
        stolenMilliseconds: this.#stolen[index],
      })),
      passes: this.#passes.map(reportedTest),
      furtherFailures,
    };
    try {
      mkdirSync(path.dirname(REPORT), { recursive: true });
      writeFileSync(REPORT, `${JSON.stringify(report, null, 2)}\n`);
      return 0;
    } catch (error) {
      print(`  ${REPORT} could not be written, which counts as one failure: ${String(error)}\n`);
      return 1;
    }
  }
}

/** Removes the report of an earlier run, which must not remain when this run dies half-way. */
function removeOldReport(): void {
  try {
    rmSync(REPORT, { force: true });
  } catch {
    // Writing the new report will fail for the same reason, and that is reported.
  }
}

function print(line: string): void {
  Mocha.reporters.Base.consoleLog("%s", line);
}
