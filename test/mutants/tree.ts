import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { buildPlugin } from "../setup/build.mjs";
import { buildCli } from "../setup/build_cli.mjs";
import { buildDaemon } from "../setup/build_daemon.mjs";
import { applyMutant, type Mutant } from "./mutant.ts";
import { REPORT, type TestResult } from "../run/result.ts";
import { testsIn } from "./verdict.ts";

/** Long enough for any one test. A mutant that never ends must not stop the others. */
const LONGEST_RUN_MILLISECONDS = 5 * 60_000;

/**
 * A copy of the project to break: the files that git tracks or would add, with a link to the project's node_modules.
 *
 * Mutants never touch the project itself, so an interrupted run leaves it unchanged.
 */
export class TreeCopy implements Disposable {
  readonly root: string;
  readonly #node: string;

  /**
   * @param node absolute path of Node 24
   * @throws Error when git does not list the project's files
   */
  constructor(project: string, node: string) {
    this.root = mkdtempSync(path.join(os.tmpdir(), "drawbridge-mutants-"));
    this.#node = node;
    for (const file of listedFiles(project)) {
      const source = path.join(project, file);
      // A file deleted but not yet committed is still listed.
      if (existsSync(source)) cpSync(source, path.join(this.root, file), { recursive: true });
    }
    symlinkSync(path.join(project, "node_modules"), path.join(this.root, "node_modules"));
    mkdirSync(path.join(this.root, "test-results"), { recursive: true });
  }

  /** Runs an action with one mutant in the tree. @throws MutantListError unless its line occurs exactly once */
  withMutant<T>(mutant: Mutant, action: () => T): T {
    const file = path.join(this.root, mutant.file);
    const source = readFileSync(file, "utf8");
    writeFileSync(file, applyMutant(source, mutant));
    try {
      return action();
    } finally {
      writeFileSync(file, source);
    }
  }

  /** Builds the plugin, the daemon and the command line from the current tree. @throws SetupFailure when it does not compile */
  build(): void {
    buildPlugin(this.root, this.#node);
    buildDaemon(this.root);
    buildCli(this.root);
  }

  /**
   * Runs the tests of a file whose full title matches.
   *
   * @returns undefined when there is no report: the file cannot be loaded, or it took too long
   */
  run(test: string, title: RegExp): readonly TestResult[] | undefined {
    const report = path.join(this.root, REPORT);
    rmSync(report, { force: true });
    const { error } = spawnSync(process.execPath, ["test/run/main.ts", "--grep", String(title), test], {
      cwd: this.root,
      stdio: "ignore",
      timeout: LONGEST_RUN_MILLISECONDS,
    });
    return error === undefined && existsSync(report) ? testsIn(readFileSync(report, "utf8")) : undefined;
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}

function listedFiles(project: string): readonly string[] {
  const args = ["-C", project, "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const { status, stdout, stderr, error } = spawnSync("git", args, { encoding: "utf8", maxBuffer: 1 << 26 });
  if (status !== 0)
    throw new Error(`git ls-files: ${error?.message ?? stderr.trim()}; the mutants run on what git lists`);
  return stdout.split("\0").filter((file) => file !== "");
}
