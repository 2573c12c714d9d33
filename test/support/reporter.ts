import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import Mocha from "mocha";
import { stolenMilliseconds } from "../run/stolen.ts";
import { endProcesses, leftoverProcesses } from "./leftover.ts";
import { machineChanges, machineState } from "./machine_state.ts";
import type { Report } from "./report.ts";
import { countReasons, REPORT, reportedTest, skipReason } from "./report.ts";

/** For processes that a test has told to end, in milliseconds. */
const GRACE = 1000;

const { EVENT_TEST_END, EVENT_TEST_FAIL, EVENT_TEST_PASS, EVENT_TEST_PENDING } = Mocha.Runner.constants;

/**
 * Mocha's `spec` output for people, its JSON report in test-results/report.json for programs, and the reasons of what was
 * skipped.
 *
 * Mocha loads a reporter by its default export and offers no way to run two at once.
 */
export default class Reporter extends Mocha.reporters.Spec {
  readonly #tests: Mocha.Test[] = [];
  readonly #passes: Mocha.Test[] = [];
  readonly #pending: Mocha.Test[] = [];
  /** Of each failure of `failures`, in their order ({@link ReportedFailure}). */
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

  /** Prints what follows mocha's own summary, and returns how many failures there are besides those of tests. */
  async #conclude(): Promise<number> {
    this.#printReasons();
    const leftovers = (await this.#endLeftovers()) + this.#printMachineChanges();
    return leftovers + this.#writeReport(leftovers);
  }

  /** A process that a test leaves behind keeps this one from ending and may hold a namespace. */
  async #endLeftovers(): Promise<number> {
    const leftovers = await leftoverProcesses(GRACE);
    if (leftovers.length === 0) return 0;
    print("  Still running after the tests, ended now, and counted as one failure:");
    for (const { pid, commandLine } of leftovers) print(`    ${pid} ${commandLine}`);
    print("");
    endProcesses(leftovers);
    return 1;
  }

  /** Tests may change only what they have made themselves, such as namespaces and directories. */
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

/** A run that dies half-way must not leave the report of an earlier one behind. */
function removeOldReport(): void {
  try {
    rmSync(REPORT, { force: true });
  } catch {
    // Writing the new one will fail for the same reason, and that is told.
  }
}

function print(line: string): void {
  Mocha.reporters.Base.consoleLog("%s", line);
}
