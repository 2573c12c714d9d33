import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { skip } from "../../support/privilege.ts";
import { requireGoProgram, requirePreCommit } from "../../support/programs/user_programs.ts";

const PROJECT = path.resolve(import.meta.dirname, "../../..");

const POD = (name: string): string => `apiVersion: v1
kind: Pod
metadata: { name: ${name}, labels: { app: ${name} } }
spec: { containers: [{ name: c, image: c, ports: [{ containerPort: 80 }] }] }
---
`;
const POLICY = (from: string): string => `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: web }
spec:
  podSelector: { matchLabels: { app: web } }
  ingress: [{ from: [{ podSelector: { matchLabels: { app: ${from} } } }] }]
`;

describe("the command line with the real kustomize, helm and pre-commit", function () {
  this.timeout(900_000);
  let directory = "";

  beforeEach(() => {
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-user-programs-"));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  const write = (file: string, text: string): void => {
    const place = path.join(directory, file);
    mkdirSync(path.dirname(place), { recursive: true });
    writeFileSync(place, text);
  };
  const run = (program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) => {
    const { status, stdout, stderr } = spawnSync(program, args, {
      cwd: directory,
      encoding: "utf8",
      env: { ...process.env, ...env },
    });
    return { status, out: stdout, err: stderr };
  };
  const drawbridge = (programs: string, ...args: readonly string[]) =>
    run(process.execPath, [path.join(PROJECT, "cli/main.ts"), ...args], {
      PATH: `${programs}${path.delimiter}${process.env["PATH"] ?? ""}`,
    });

  describe("kustomize", () => {
    let programs = "";

    before(function () {
      programs = requireGoProgram(this, "kustomize");
    });
    beforeEach(() => {
      write("base/kustomization.yaml", "namespace: shop\nresources: [all.yaml]\n");
      write("base/all.yaml", POD("web") + POD("client") + POD("other") + POLICY("client"));
      write(
        "live/kustomization.yaml",
        `namePrefix: live-
resources: [../base]
patches:
  - target: { kind: NetworkPolicy, name: web }
    patch: "- { op: replace, path: /spec/ingress/0/from/0/podSelector/matchLabels/app, value: other }"
`,
      );
    });

    it("CLI-31: --kustomize answers from kustomize's output for an overlay, with its namespace, prefix and patch", () => {
      const from = (name: string) =>
        drawbridge(
          programs,
          "policy",
          "explain",
          "-n",
          "shop",
          "--kustomize",
          "live",
          "--from",
          name,
          "--to",
          "live-web",
        );
      const [client, other] = [from("live-client"), from("live-other")];
      assert.deepEqual([client.status, other.status], [1, 0], client.err + other.err);
      assert.match(client.out, /shop\/live-web \(kustomize live:\d+\)/);
    });
  });

  describe("helm", () => {
    let programs = "";

    before(function () {
      programs = requireGoProgram(this, "helm");
    });
    beforeEach(() => {
      write("chart/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n");
      write("chart/values.yaml", "client: client\n");
      write("chart/templates/pods.yaml", POD("web") + POD("client") + POD("other"));
      write("chart/templates/policy.yaml", POLICY("{{ .Values.client }}"));
      write(
        "chart/templates/tests/test.yaml",
        POD("probe").replace("labels:", "annotations: { helm.sh/hook: test }, labels:"),
      );
    });

    const explain = (from: string, ...options: readonly string[]) =>
      drawbridge(programs, "policy", "explain", "--helm", "chart", "--from", from, "--to", "web", ...options);

    it("CLI-31: --helm answers from the rendered chart, with the values of its own file and of --helm-values", () => {
      write("production.yaml", "client: other\n");
      const [byDefault, byValues] = [explain("client"), explain("client", "--helm-values", "production.yaml")];
      assert.deepEqual([byDefault.status, byValues.status], [0, 1], byDefault.err + byValues.err);
      assert.match(byValues.out, /default\/web \(helm chart:\d+\)/);
    });

    it("CLI-31: --helm omits the pods of a chart's tests", () => {
      const { status, err } = explain("probe");
      assert.equal(status, 3);
      assert.match(err, /probe/);
    });

    it("CLI-31: a template with a mistake ends with exit code 3 and helm's own message", () => {
      write("chart/templates/policy.yaml", "{{ .Values.client | nosuch }}\n");
      const { status, out, err } = explain("client");
      assert.deepEqual([status, out], [3, ""]);
      assert.match(err, /helm template .*it ended with exit code 1\n.*nosuch/s);
    });
  });

  describe("pre-commit", () => {
    let environment: NodeJS.ProcessEnv = {};
    let program = "";

    before(function () {
      if (!existsSync(path.join(PROJECT, ".git")))
        skip(this, "no Git repository here, of which pre-commit makes a clone");
      const found = requirePreCommit(this);
      ({ program } = found);
      environment = { PYTHONPATH: found.packages };
    });
    beforeEach(() => {
      const node = path.dirname(process.execPath);
      // The hooks' checkout, its packages and pre-commit's own records are removed with the test.
      environment = {
        ...environment,
        HOME: directory,
        PRE_COMMIT_HOME: path.join(directory, "pre-commit"),
        PATH: `${node}${path.delimiter}${process.env["PATH"] ?? ""}`,
        GIT_CONFIG_COUNT: "2",
        GIT_CONFIG_KEY_0: "user.name",
        GIT_CONFIG_VALUE_0: "t",
        GIT_CONFIG_KEY_1: "user.email",
        GIT_CONFIG_VALUE_1: "t@example.com",
        npm_config_userconfig: path.join(os.homedir(), ".npmrc"),
        npm_config_cache: path.join(os.homedir(), ".npm"),
      };
    });

    const git = (...args: readonly string[]): string => {
      const { status, out, err } = run("git", args, environment);
      assert.equal(status, 0, err);
      return out.trim();
    };

    it("CI-01: pre-commit runs lint and diff from a clone of this repository, and a commit with a mistake is refused", () => {
      // pre-commit clones the commit at HEAD, so the committed hooks are tested.
      const rev = git("-C", PROJECT, "rev-parse", "HEAD");
      write(
        ".pre-commit-config.yaml",
        `repos:
  - repo: ${PROJECT}
    rev: ${rev}
    hooks: [{ id: drawbridge-lint, args: [-f, k8s, -R] }, { id: drawbridge-diff, args: [HEAD, k8s] }]
`,
      );
      git("init", "--quiet", ".");
      write("k8s/pods.yaml", POD("web") + POD("client"));
      git("add", "k8s");
      git("commit", "--quiet", "--message", "base");
      const installed = run("python3", [program, "install"], environment);
      assert.equal(installed.status, 0, installed.out + installed.err);

      write("k8s/policy.yaml", POLICY("clients"));
      git("add", "--all", "k8s", ".pre-commit-config.yaml");
      const refused = run("git", ["commit", "--message", "a selector with a slip of the pen"], environment);
      assert.equal(refused.status, 1, refused.out + refused.err);
      assert.match(refused.out + refused.err, /network policies are sane\.+Failed/);
      assert.match(refused.out + refused.err, /what network policies open and close\.+Passed/);
      assert.match(refused.out + refused.err, /removed .*default\/web/);

      write("k8s/policy.yaml", POLICY("client"));
      git("add", "k8s");
      const taken = run("git", ["commit", "--message", "the right selector"], environment);
      assert.equal(taken.status, 0, taken.out + taken.err);
      assert.match(taken.out + taken.err, /network policies are sane\.+Passed/);
    });
  });
});
