import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { requireGoProgram } from "../../support/programs/user_programs.ts";

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

describe("the command line with the real kustomize and helm", function () {
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
});
