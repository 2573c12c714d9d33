import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import process from "node:process";
import type { GuestResult } from "../guest.ts";

/** Runs the test files that the kernel's command line names, and prints the result of each as one line of JSON. */

const LIMIT_MILLISECONDS = 3600_000;
const REPORT = "/tmp/report.json";
const LONGEST_ERROR = 1500;

/** A test in the report of mocha. */
interface Test {
  readonly fullTitle: string;
  readonly err?: { readonly stack?: string };
}
type Report = Readonly<Record<"passes" | "failures" | "pending", readonly Test[]>>;

function run(file: string): GuestResult {
  rmSync(REPORT, { force: true });
  const begun = Date.now();
  const reporter = ["--reporter", "json", "--reporter-option", `output=${REPORT}`];
  const args = ["node_modules/mocha/bin/mocha.js", "--timeout", "600000", ...reporter, file];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", timeout: LIMIT_MILLISECONDS });
  const seconds = Math.round((Date.now() - begun) / 1000);
  const { passes, failures, pending } = reported() ?? {
    passes: [],
    pending: [],
    failures: [
      { fullTitle: "it ended without a report", err: { stack: `${stdout}\n${stderr}`.slice(-LONGEST_ERROR) } },
    ],
  };
  return {
    file,
    seconds,
    passed: passes.map(({ fullTitle }) => fullTitle),
    skipped: pending.map(({ fullTitle }) => fullTitle),
    failed: failures.map(({ fullTitle, err }) => ({
      title: fullTitle,
      error: (err?.stack ?? "").slice(0, LONGEST_ERROR),
    })),
  };
}

function reported(): Report | undefined {
  try {
    return JSON.parse(readFileSync(REPORT, "utf8")) as Report;
  } catch {
    return undefined;
  }
}

const [, list = ""] = /\bdrawbridge\.files=(\S+)/.exec(readFileSync("/proc/cmdline", "utf8")) ?? [];
for (const file of list.split(",")) process.stdout.write(`\nKERNELS-RESULT ${JSON.stringify(run(file))}\n`);
