import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  accessSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { parse } from "yaml";

const PROJECT = path.resolve(import.meta.dirname, "../../..");
const pod = (name: string): string =>
  `apiVersion: v1\nkind: Pod\nmetadata: { name: ${name}, namespace: shop, labels: { app: ${name} } }\nspec: { containers: [{ name: c }] }\n---\n`;
const policy = (podSelector: string): string =>
  `apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: { name: p, namespace: shop }\nspec: { podSelector: ${podSelector} }\n`;

describe("pre-commit hooks and the GitHub Action", function () {
  this.timeout(120_000);
  let directory = "";

  const run = (program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) => {
    const { status, stdout, stderr } = spawnSync(program, args, {
      cwd: directory,
      encoding: "utf8",
      env: { ...process.env, ...env },
    });
    return { status, out: stdout, err: stderr };
  };
  const git = (...args: readonly string[]): void => {
    const { status, err } = run("git", ["-c", "user.name=t", "-c", "user.email=t@example.com", ...args]);
    assert.equal(status, 0, err);
  };
  const action = (env: NodeJS.ProcessEnv) =>
    run(path.join(PROJECT, "cli/ci/action.sh"), [], {
      RUNNER_TEMP: directory,
      GITHUB_STEP_SUMMARY: path.join(directory, "summary"),
      GITHUB_OUTPUT: path.join(directory, "output"),
      INPUT_PATH: "k8s",
      ...env,
    });

  beforeEach(() => {
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-ci-"));
    mkdirSync(path.join(directory, "k8s"));
    writeFileSync(path.join(directory, "k8s/pods.yaml"), pod("web") + pod("db"));
    git("init", "--quiet");
    git("add", "k8s");
    git("commit", "--quiet", "-m", "base");
    writeFileSync(path.join(directory, "k8s/policy.yaml"), policy("{ matchLabels: { app: db } }"));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it("CI-01: the programs of the hooks exist, are executable and accept the arguments that the hooks pass", () => {
    const hooks = parse(readFileSync(path.join(PROJECT, ".pre-commit-hooks.yaml"), "utf8")) as readonly {
      id: string;
      entry: string;
      language: string;
    }[];
    assert.deepEqual(
      hooks.map(({ id }) => id),
      ["drawbridge-lint", "drawbridge-test", "drawbridge-diff"],
    );
    for (const { entry, language } of hooks) {
      assert.equal(language, "script");
      const [program = "", ...words] = entry.split(" ");
      accessSync(path.join(PROJECT, program), constants.X_OK);
      if (words.length > 0) assert.equal(run(path.join(PROJECT, program), [...words, "--help"]).status, 0);
    }
  });

  it("CI-02: the action inserts no input into a script: its step reads each input from an environment variable", () => {
    const { inputs, runs } = parse(readFileSync(path.join(PROJECT, "action.yml"), "utf8")) as {
      inputs: Record<string, unknown>;
      runs: { steps: readonly { run?: string; env?: Record<string, string> }[] };
    };
    const script = readFileSync(path.join(PROJECT, "cli/ci/action.sh"), "utf8");
    const steps = runs.steps.filter((step) => step.run !== undefined);
    for (const step of steps) assert.doesNotMatch(step.run ?? "", /\$\{\{/);
    const env = Object.entries(steps[0]?.env ?? {});
    assert.deepEqual(
      env.flatMap(([, value]) => /inputs\.([\w-]+)/.exec(value)?.[1] ?? []),
      Object.keys(inputs),
    );
    for (const [name] of env) assert.ok(script.includes(name), name);
  });

  it("CI-04: the action's lint writes SARIF and fails with the exit code of the findings", () => {
    const own = { ACTION_REPOSITORY: "example/drawbridge", ACTION_REF: "v1", GITHUB_SERVER_URL: "https://git.example" };
    const fine = action({ INPUT_COMMAND: "lint", INPUT_ARGS: "--fail-on\nerror", ...own });
    assert.equal(fine.status, 0, fine.err);
    const report = readFileSync(path.join(directory, "drawbridge-report.sarif"), "utf8");
    assert.equal((JSON.parse(report) as { version: string }).version, "2.1.0");
    assert.match(report, /"helpUri": "https:\/\/git\.example\/example\/drawbridge\/blob\/v1\/docs\/lint\.md#invalid"/);
    assert.equal(readFileSync(path.join(directory, "output"), "utf8"), `report=${directory}/drawbridge-report.sarif\n`);
    writeFileSync(path.join(directory, "k8s/policy.yaml"), policy("{ matchLabels: { app: dbb } }"));
    const bad = action({ INPUT_COMMAND: "lint" });
    assert.equal(bad.status, 1, bad.err);
    assert.match(bad.out, /selects-nothing/);
  });

  it("CI-02: no text from files is a command to the runner, whichever command of the action prints it", () => {
    const name = "::set-output name=report::";
    mkdirSync(path.join(directory, name));
    writeFileSync(path.join(directory, name, "x.yaml"), pod("db") + policy("{ matchLabels: { app: dbb } }"));
    writeFileSync(path.join(directory, "expectations.yaml"), "::add-mask::x: 1\n");
    const runs = [
      { INPUT_COMMAND: "lint", INPUT_PATH: name },
      { INPUT_COMMAND: "diff", INPUT_PATH: name, INPUT_BASE: "::stop-commands::x" },
      { INPUT_COMMAND: "test", INPUT_PATH: name, INPUT_EXPECTATIONS: "expectations.yaml" },
      { INPUT_COMMAND: "::add-mask::x" },
    ];
    for (const env of runs) {
      const { out, err } = action({ GITHUB_ACTIONS: "true", ...env });
      assert.equal(err, "", "the runner gets all lines in one order");
      const [, token = ""] = /^::stop-commands::(drawbridge-[0-9a-f]{32})\n/.exec(out) ?? [];
      assert.notEqual(token, "", out);
      assert.ok(out.endsWith(`\n::${token}::\n`), out);
      assert.equal(out.split(token).length, 3, "no other line ends it");
    }
    const { out } = action(runs[0] ?? {});
    assert.match(out, /^::set-output name=report::/m, "without the token the runner would obey");
  });

  it("CI-04: the action's diff compares with the base commit, writes Markdown for the summary, and fails only on request", () => {
    const shown = action({ INPUT_COMMAND: "diff", INPUT_BASE: "HEAD" });
    assert.equal(shown.status, 0, shown.err);
    assert.match(shown.out, /\| closes \| .*`shop\/db` \| `all` \|/);
    assert.equal(readFileSync(path.join(directory, "summary"), "utf8"), shown.out);
    assert.equal(action({ INPUT_COMMAND: "diff", INPUT_BASE: "HEAD", INPUT_FAIL_ON_CHANGE: "true" }).status, 1);
    git("add", "k8s");
    git("commit", "--quiet", "-m", "policy");
    const same = action({ INPUT_COMMAND: "diff", INPUT_BASE: "HEAD", INPUT_FAIL_ON_CHANGE: "true" });
    assert.deepEqual([same.status, same.out], [0, "**No difference in what may be sent.**\n"], same.err);
  });

  it("CI-04: the action's diff reads all of the base commit: what .gitattributes omits from archives, links out of the path, and paths and first or last manifests of one side only", () => {
    const at = (name: string): string => path.join(directory, name);
    const diff = (where: string, pattern: RegExp): void => {
      const { status, out, err } = action({ INPUT_COMMAND: "diff", INPUT_BASE: "HEAD", INPUT_PATH: where });
      assert.equal(status, 0, err);
      assert.match(out, pattern, where);
    };
    writeFileSync(at(".gitattributes"), "k8s/policy.yaml export-ignore\n");
    mkdirSync(at("links"));
    symlinkSync("../k8s", at("links/all"));
    symlinkSync("../k8s/pods.yaml", at("links/pods.yaml"));
    symlinkSync("../k8s/policy.yaml", at("links/policy.yaml"));
    git("add", ".");
    git("commit", "--quiet", "-m", "policy");
    diff("links", /^\*\*No difference/);
    cpSync(at("k8s"), at("new"), { recursive: true });
    diff("new", /^\* opens \(new workload\) /m);
    rmSync(at("new"), { recursive: true });
    rmSync(at("k8s/policy.yaml"));
    rmSync(at("links/policy.yaml"));
    for (const where of [".", "links/all", "links"]) diff(where, /\| opens \| .*`shop\/db` \| `all` \|/);
    rmSync(at("k8s"), { recursive: true });
    diff("k8s", /^\* closes \(removed workload\) /m);
    for (const where of ["missing", "..", directory]) {
      assert.equal(action({ INPUT_COMMAND: "diff", INPUT_BASE: "HEAD", INPUT_PATH: where }).status, 3, where);
    }
  });

  it("CI-04: a base that is not a commit, or an input that contains shell code, is an error and is not executed", () => {
    const unknown = action({ INPUT_COMMAND: "diff", INPUT_BASE: "0123456789" });
    assert.deepEqual(
      [unknown.status, /is not a commit of this repository; fetch it first/.test(unknown.err)],
      [3, true],
    );
    const attack = `$(touch ${directory}/attacked)`;
    for (const env of [
      { INPUT_BASE: attack },
      { INPUT_BASE: "HEAD", INPUT_PATH: attack },
      { INPUT_BASE: "HEAD", INPUT_ARGS: `--by\n\`touch ${directory}/attacked\`` },
    ]) {
      assert.notEqual(action({ INPUT_COMMAND: "diff", ...env }).status, 0);
    }
    assert.equal(existsSync(path.join(directory, "attacked")), false);
    const { status, err } = action({ INPUT_COMMAND: "deploy" });
    assert.deepEqual([status, err], [2, "drawbridge: command is 'deploy'; expected lint, diff or test\n"]);
  });
});
