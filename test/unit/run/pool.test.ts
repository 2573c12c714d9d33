import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { type Finished, runFiles } from "../../run/pool.ts";
import { fileLines, reportLines } from "../../run/print.ts";

/** Milliseconds; long enough for a process without open handles on a busy machine. */
const LONGEST_END = 3000;
const PASSES = `it("passes", () => {});`;

describe("test run: the processes", () => {
  let directory: string;

  before(() => (directory = mkdtempSync(path.join(tmpdir(), "drawbridge-run-"))));
  after(() => rmSync(directory, { recursive: true }));

  async function run(texts: readonly string[], processes = 1, options: { grep?: string; forbidOnly?: boolean } = {}) {
    const finished: Finished[] = [];
    const files = texts.map((text, i) => {
      const file = path.join(directory, `${String(i)}_${String(Math.random())}.test.mjs`);
      writeFileSync(file, text);
      return { file, grep: options.grep, forbidOnly: options.forbidOnly ?? false };
    });
    const problems = await runFiles(files, processes, (result) => finished.push(result), LONGEST_END);
    return { finished, problems };
  }

  it("each file's tests are reported with outcome, error and what they printed", async () => {
    const text = `
      describe("a", () => {
        it("passes", () => console.log("heard"));
        it("fails", () => { throw new Error("on purpose"); });
        it("is skipped", function () { this.skip(); });
      });`;
    const { finished, problems } = await run([text]);
    assert.deepEqual(problems, []);
    const [file] = finished;
    assert.deepEqual(
      file?.tests.map(({ fullTitle, outcome }) => [fullTitle, outcome]),
      [
        ["a passes", "passed"],
        ["a fails", "failed"],
        ["a is skipped", "skipped"],
      ],
    );
    assert.match(file?.tests[1]?.error ?? "", /Error: on purpose\n {4}at /);
    assert.match(file?.output ?? "", /^heard$/m);
  });

  it("a failing hook is a failure, and the lines of the file and of the report say so", async () => {
    const { finished } = await run([`before(() => { throw new Error("no lab"); }); ${PASSES}`]);
    const [file] = finished;
    assert.ok(file !== undefined);
    assert.match(fileLines(file, false).join("\n"), /^FAIL .*: 0 passed, 1 failed.*\n +failed "before all" hook/);
    const lines = reportLines({ seed: 1, files: finished, problems: ["a link is left"] });
    assert.match(lines.join("\n"), /^FAIL .*"before all" hook.*\n.*Error: no lab/m);
    assert.match(lines.join("\n"), /^FAIL {2}a link is left$/m);
    assert.equal(lines.at(-1), "0 passed, 2 failed");
  });

  it("a file that ends its process is a problem, and the files after it run in another process", async () => {
    const { finished } = await run([`it("ends", () => process.exit(3));`, PASSES]);
    assert.deepEqual(
      finished.map(({ tests, problems }) => [tests.length, problems]),
      [
        [0, ["the process that ran it ended: exit code 3"]],
        [1, []],
      ],
    );
  });

  it("a file that cannot be loaded is a problem", async () => {
    const { finished } = await run([`import "./missing.mjs";`]);
    assert.match(finished[0]?.problems.join() ?? "", /^it cannot be run: .*missing\.mjs/);
  });

  it("a process that a test leaves running is ended, and is a problem of its file", async () => {
    const text = `
      import { spawn } from "node:child_process";
      it("leaves one", () => { spawn("sleep", ["61"], { stdio: "ignore" }); });`;
    const { finished } = await run([text, PASSES]);
    assert.match(finished[0]?.problems.join() ?? "", /^it left a process running: \d+ sleep 61$/);
    assert.deepEqual(finished[1]?.problems, []);
  });

  it("a timer that keeps the process from ending is a problem", async () => {
    const { problems } = await run([`it("ticks", () => { setInterval(() => {}, 1000); });`]);
    assert.match(problems.join(), /does not end: .*\bTimeout \d, open since .*\.test\.mjs/s);
  });

  it("only tests whose titles match run, and a test marked as the only one is refused where this is forbidden", async () => {
    const text = `it("one", () => {}); it("two", () => {});`;
    assert.deepEqual(
      (await run([text], 1, { grep: "tw" })).finished[0]?.tests.map(({ fullTitle }) => fullTitle),
      ["two"],
    );
    const marked = await run([`it.only("one", () => {});`], 1, { forbidOnly: true });
    assert.match(marked.finished[0]?.problems.join() ?? "", /\.only/);
  });

  it("the long forms that a file takes are reported, and its few rounds are not", async () => {
    const module = fileURLToPath(new URL("../../support/long_form.ts", import.meta.url));
    const text = `
      import { roundsFor } from ${JSON.stringify(module)};
      const kills = roundsFor("kills", 2, 5);
      it("makes " + kills, () => {});`;
    const results = [];
    const before = process.env["DRAWBRIDGE_FULL"];
    try {
      for (const full of ["1", "0"]) {
        process.env["DRAWBRIDGE_FULL"] = full;
        results.push(...(await run([text])).finished);
      }
    } finally {
      if (before === undefined) delete process.env["DRAWBRIDGE_FULL"];
      else process.env["DRAWBRIDGE_FULL"] = before;
    }
    assert.deepEqual(
      results.map(({ tests, longForms }) => [tests[0]?.fullTitle, longForms]),
      [
        ["makes 5", ["5 kills in place of 2"]],
        ["makes 2", []],
      ],
    );
  });

  it("several files run at once in as many processes as are allowed", async () => {
    const text = `it("waits for the other", async () => {
      const { existsSync, writeFileSync } = await import("node:fs");
      const file = ${JSON.stringify(directory)} + "/" + NAME;
      writeFileSync(file, "");
      while (!existsSync(${JSON.stringify(directory)} + "/" + OTHER)) await new Promise((done) => setTimeout(done, 5));
    });`;
    const texts = [
      ["a", "b"],
      ["b", "a"],
    ].map(([name, other]) => text.replaceAll("NAME", JSON.stringify(name)).replaceAll("OTHER", JSON.stringify(other)));
    const { finished } = await run(texts, 2);
    assert.deepEqual(
      finished.map(({ tests }) => tests.map(({ outcome }) => outcome)),
      [["passed"], ["passed"]],
    );
  });
});
