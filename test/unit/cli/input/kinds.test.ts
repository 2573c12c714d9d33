import assert from "node:assert/strict";
import { memoryFiles, type Outcome, runCli, matrixLines } from "../../../support/cli/cli.ts";

const SPEC = "{ metadata: { labels: { app: web } }, spec: { containers: [{ name: c, image: i }] } }";
const workload = (apiVersion: string, kind: string, spec = `{ template: ${SPEC} }`): string =>
  `---\napiVersion: ${apiVersion}\nkind: ${kind}\nmetadata: { name: web, namespace: shop }\nspec: ${spec}\n`;
const OTHER = SPEC.replace("app: web", "app: head");
const POLICY = `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: web, namespace: shop }
spec: { podSelector: { matchLabels: { app: web } }, ingress: [] }
`;
const run = (input: string, ...args: readonly string[]): Promise<Outcome> =>
  runCli(["policy", ...args, "-f", "a.yaml"], memoryFiles({ "a.yaml": input }));

describe("cli/input: kinds", () => {
  for (const [apiVersion, kind, spec] of [
    ["argoproj.io/v1alpha1", "Rollout", undefined],
    ["apps.openshift.io/v1", "DeploymentConfig", undefined],
    ["apps.kruise.io/v1alpha1", "CloneSet", undefined],
    ["serving.knative.dev/v1", "Service", undefined],
    [
      "kubevirt.io/v1",
      "VirtualMachine",
      "{ template: { metadata: { labels: { app: web } }, spec: { domain: { devices: {} } } } }",
    ],
    ["example.org/v1", "Unheard", undefined],
    ["jobset.x-k8s.io/v1alpha2", "JobSet", `{ replicatedJobs: [{ template: { spec: { template: ${SPEC} } } }] }`],
    ["leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", `{ leaderWorkerTemplate: { workerTemplate: ${SPEC} } }`],
    ["ray.io/v1", "RayCluster", `{ headGroupSpec: { template: ${SPEC} }, workerGroupSpecs: [{ template: ${SPEC} }] }`],
    ["kubeflow.org/v1", "PyTorchJob", `{ pytorchReplicaSpecs: { Worker: { template: ${SPEC} } } }`],
    ["sparkoperator.k8s.io/v1beta2", "SparkApplication", `{ driver: { template: ${SPEC} } }`],
    ["keda.sh/v1alpha1", "ScaledJob", `{ jobTargetRef: { template: ${SPEC} } }`],
    ["kubevirt.io/v1", "VirtualMachineInstance", "{ domain: { devices: {} } }"],
  ] as const) {
    it(`READ-20: ${kind} of ${apiVersion} stands for the pods of its template, which policies select`, async () => {
      // The pod of a VirtualMachineInstance has the labels of the object itself.
      const labels = kind === "VirtualMachineInstance" ? ", labels: { app: web } }" : " }";
      const object = workload(apiVersion, kind, spec).replace(" }", labels);
      const { code, out, err } = await run(object + POLICY, "matrix", "-o", "json");
      assert.equal(code, 0, err);
      const lines = matrixLines(out)
        .split("\n")
        .filter((line) => line.includes(`,shop/${kind.toLowerCase()}/web,`));
      assert.ok(
        lines.some((line) => line.startsWith("outside") && !/TCP|all/.test(line)),
        out,
      );
      assert.doesNotMatch(err, /selects none/);
    });
  }

  it("READ-20: an OpenShift Template is opened with the values of its parameters, and one without a default is empty", async () => {
    const template = `apiVersion: template.openshift.io/v1
kind: Template
metadata: { name: t }
labels: { team: x }
parameters: [{ name: NAME, value: web }, { name: COUNT, value: "1" }, { name: SUFFIX }]
objects:
- apiVersion: apps/v1
  kind: Deployment
  metadata: { name: "\${NAME}\${SUFFIX}", namespace: shop }
  spec: { replicas: "\${{COUNT}}", template: ${SPEC} }
`;
    const { out } = await run(template + POLICY, "matrix", "--by", "pod", "-o", "json");
    assert.match(matrixLines(out), /^shop\/web_deployment_0,/m);
    assert.doesNotMatch(out, /web_deployment_1/, "COUNT is a number");
    const bad = await run(template.replace("replicas:", "replicas: -1, x:"), "matrix");
    assert.match(bad.err, /^a\.yaml:10: Deployment: spec\.replicas/m, "the line is that of the file");
  });

  it("READ-20: an object with generateName instead of a name is read under that prefix and a fixed end", async () => {
    const job = (prefix: string): string => workload("batch/v1", "Job").replace("name: web", `generateName: ${prefix}`);
    const { code, out, err } = await run(job("migrate-") + POLICY.replace("name: web", "generateName: p-"), "matrix");
    assert.equal(code, 0, err);
    assert.match(out, /^shop\/job\/migrate-xxxxx /m);
    const long = await run(job("a".repeat(63)), "matrix");
    assert.match(
      long.out,
      new RegExp(`^shop/job/a{58}xxxxx `, "m"),
      "the API server keeps 58 characters of the prefix",
    );
    const neither = await run(job('""'), "matrix");
    assert.match(neither.err, /^a\.yaml:4: Job: metadata\.name: missing/m);
  });

  it("READ-20: a kind with several templates stands for the pods of each, and a problem is reported at its line", async () => {
    const set = (second: string): string =>
      workload("ray.io/v1", "RayCluster", `\n  a: { template: ${OTHER} }\n  b: [{ podTemplate: ${second} }]`);
    const { out } = await run(set(SPEC) + POLICY, "matrix", "--by", "pod", "-o", "json");
    const denied = [0, 1, 2, 3].filter((one) =>
      matrixLines(out).includes(`outside 0.0.0.0/0,shop/web_raycluster_${one},none`),
    );
    assert.deepEqual(denied, [2, 3], matrixLines(out));
    const bad = await run(set(SPEC.replace("app: web", "app: [7]")), "matrix");
    assert.match(bad.err, /^a\.yaml:7: RayCluster shop\/web: spec\.b\.0\.podTemplate\.metadata\.labels/m);
  });

  for (const [apiVersion, kind, consequence] of [
    ["security.istio.io/v1", "AuthorizationPolicy", "Istio may deny what is allowed here"],
    ["policy.linkerd.io/v1alpha1", "AuthorizationPolicy", "Linkerd may deny what is allowed here"],
    ["cilium.io/v2", "CiliumEnvoyConfig", "Cilium may lead connections elsewhere"],
  ] as const) {
    it(`READ-20: ${kind} of ${apiVersion} is named on stderr, with what the answer does not consider`, async () => {
      const { code, err } = await run(workload("apps/v1", "Deployment") + workload(apiVersion, kind, "{}"), "matrix");
      assert.equal(code, 0);
      assert.match(err, new RegExp(`^a\\.yaml:7: ${kind} shop/web: not read; ${consequence}$`, "m"));
    });
  }
});

describe("cli/input: an object that occurs twice", () => {
  const namespace = (labels: string): string =>
    `---\napiVersion: v1\nkind: Namespace\nmetadata: { name: shop, labels: { ${labels} } }\n`;
  for (const [what, again] of [
    ["a Namespace", namespace("a: b")],
    ["a policy", POLICY],
    ["a workload", workload("apps/v1", "Deployment")],
    ["a Service", workload("v1", "Service", "{ ports: [{ port: 80 }], clusterIP: 10.0.0.1 }")],
  ] as const) {
    it(`READ-21: ${what} with the same content is read once, with a note`, async () => {
      const { code, err } = await run(again + again, "matrix");
      assert.equal(code, 0, err);
      assert.match(err, /also in a\.yaml:2 with the same (content|pods), and so read once/);
      const other = await run(
        again + again.replace(/labels: \{ a: b|ingress: \[\]|app: web|port: 80/, (text) => `${text.slice(0, -1)}7`),
        "matrix",
      );
      assert.equal(other.code, 3, "other content is an error");
    });
  }
});
