import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import * as v from "valibot";
import { parseMutants } from "../../mutants/mutant.ts";

const PROJECT = path.resolve(import.meta.dirname, "../../..");
const REPORT = v.object({ tests: v.array(v.object({ file: v.string(), fullTitle: v.string() })) });
const LARGEST_REPORT = 64 * 1024 * 1024;

describe("mutants: the titles of the tests that must notice", function () {
  this.timeout(300_000);

  it("each mutant's title is a part of exactly one test's title", () => {
    const mutants = parseMutants(readFileSync(path.join(PROJECT, "test/mutants.yaml"), "utf8"));
    const files = [...new Set(mutants.map(({ test }) => test))];
    const args = ["node_modules/mocha/bin/mocha.js", "--dry-run", "--reporter", "json", ...files];
    const { stdout, stderr, status } = spawnSync(process.execPath, args, {
      cwd: PROJECT,
      encoding: "utf8",
      maxBuffer: LARGEST_REPORT,
    });
    assert.equal(status, 0, stderr);
    // Properties print their seeds when their files are loaded, before the report.
    const { tests } = v.parse(REPORT, JSON.parse(stdout.slice(stdout.indexOf("{\n"))));
    const titles = Map.groupBy(tests, ({ file }) => path.relative(PROJECT, file));
    const misfits = mutants.flatMap(({ id, test, title }) => {
      const found = (titles.get(test) ?? []).filter(({ fullTitle }) => fullTitle.includes(title)).length;
      return found === 1 ? [] : [`${id}: ${found} tests of ${test} have the title ${JSON.stringify(title)}`];
    });
    assert.deepEqual(misfits, []);
  });
});
