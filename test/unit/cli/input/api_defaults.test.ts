import assert from "node:assert/strict";
import { readManifests } from "../../../../cli/input/manifests.ts";
import { memoryFiles } from "../../../support/cli/cli.ts";

const read = (text: string) => readManifests(memoryFiles({ "wl.yaml": text }), ["wl.yaml"], false);
const problemsOf = (text: string): readonly string[] =>
  read(text).problems.map(({ file, line, message }) => `${file}:${line}: ${message}`);

const service = (spec: string): string =>
  `apiVersion: v1\nkind: Service\nmetadata: { name: s, namespace: a }\nspec:\n  ports: [{ port: 80, protocol: "" }]\n${spec}`;
const policy = (spec: string): string =>
  `apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: { name: p, namespace: a }\nspec:\n  podSelector: {}\n  ${spec}\n`;
const pod = (container: string): string =>
  `apiVersion: v1\nkind: Pod\nmetadata: { name: p, namespace: a }\nspec:\n  containers:\n    - name: c\n      ${container}\n`;
const deployment = (labels: string, container = "name: c"): string => `apiVersion: apps/v1
kind: Deployment
metadata: { name: web, namespace: a }
spec:
  template:
    metadata: { labels: ${labels} }
    spec:
      containers:
        - ${container}
`;

describe("objects with the API server's defaults", () => {
  it("READ-01: an empty protocol in a NetworkPolicy and an empty internalTrafficPolicy stay refused, since they are pointers", () => {
    assert.deepEqual(problemsOf(policy('ingress: [{ ports: [{ port: 80, protocol: "" }] }]')), [
      'wl.yaml:6: NetworkPolicy a/p: spec.ingress[0].ports[0].protocol: ""; expected one of TCP, UDP, SCTP',
    ]);
    assert.equal(problemsOf(service('  internalTrafficPolicy: ""\n')).length, 1);
  });

  it("READ-01: an address with leading zeros is refused in every field", () => {
    const block = (cidr: string): string => policy(`ingress: [{ from: [{ ipBlock: { cidr: ${cidr} } }] }]`);
    assert.match(problemsOf(block("010.0.0.0/8"))[0] ?? "", /cidr: "010\.0\.0\.0\/8"/);
    assert.deepEqual(problemsOf(block("10.0.0.0/8")), []);
    assert.equal(problemsOf(service("  externalIPs: [192.0.2.010]\n")).length, 1);
    assert.equal(problemsOf(`${pod("ports: []")}status: { podIP: 10.0.0.01 }\n`).length, 1);
  });

  it("READ-03: an error in a template names the workload and its path once, with its line", () => {
    assert.deepEqual(problemsOf(deployment('{ "a b": c }')), [
      'wl.yaml:6: Deployment a/web: spec.template.metadata.labels key: "a b"; expected a label key as in "app" or "example.org/tier"',
    ]);
    assert.deepEqual(problemsOf(deployment("{ app: -x }")), [
      'wl.yaml:6: Deployment a/web: spec.template.metadata.labels["app"]: "-x"; expected at most 63 letters, digits, "-", "_" and ".", a letter or digit at both ends',
    ]);
    assert.deepEqual(problemsOf(deployment("{ a: b }", "ports:\n            - containerPort: 0")), [
      "wl.yaml:10: Deployment a/web: spec.template.spec.containers[0].ports[0].containerPort: 0; expected an integer from 1 to 65535",
    ]);
    const cronJob =
      "apiVersion: batch/v1\nkind: CronJob\nmetadata: { name: j, namespace: a }\nspec:\n  jobTemplate:\n    spec:\n      template:\n        metadata:\n          labels: { x: y z }\n";
    assert.match(
      problemsOf(cronJob).join(),
      /^wl\.yaml:9: CronJob a\/j: spec\.jobTemplate\.spec\.template\.metadata\.labels\["x"\]: /,
    );
  });

  it("READ-03: a workload with an invalid name or number of pods, or that occurs twice, is one problem", () => {
    assert.deepEqual(problemsOf(deployment("{ a: b }").replace("name: web", "name: Web")), [
      'wl.yaml:3: Deployment: metadata.name: "Web"; expected 1 to 253 of "a" to "z", digits, "-" and ".", as in "web-0.example"',
    ]);
    assert.deepEqual(problemsOf(deployment("{ a: b }").replace("spec:\n", "spec:\n  replicas: -1\n")), [
      "wl.yaml:5: Deployment: spec.replicas: -1; expected an integer from 0 to 2147483647",
    ]);
    assert.deepEqual(problemsOf(`${deployment("{ a: b }")}---\n${deployment("{ a: c }")}`), [
      "wl.yaml:11: Deployment a/web: also in wl.yaml:1; expected once",
    ]);
  });

  it("YAML-04: an error in an object of a kind that no command reads is reported, and the other objects are read", () => {
    const secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: s }\ndata:\n  a: b\n  a: c\n";
    const { manifests, problems, omitted } = read(`${secret}---\n${policy("ingress: []")}`);
    assert.deepEqual(problems, []);
    assert.deepEqual(
      manifests.map(({ object }) => object.key),
      ["a/p"],
    );
    assert.deepEqual(
      omitted.map(({ line, message }) => `${line}: ${message}`),
      ["6: Secret: a key stands twice in one object (nothing here depends on this object)"],
    );
    const versions = {
      NetworkPolicy: "networking.k8s.io/v1",
      Pod: "v1",
      Deployment: "apps/v1",
      Service: "v1",
      CiliumNetworkPolicy: "v1",
      List: "v1",
      NetworkPolicyList: "networking.k8s.io/v1",
      Endpoints: "v1",
      Template: "template.openshift.io/v1",
      Rollout: "argoproj.io/v1alpha1",
    };
    for (const [kind, apiVersion] of Object.entries(versions)) {
      const broken = secret.replace("kind: Secret", `kind: ${kind}`).replace("v1", apiVersion);
      assert.equal(read(broken).problems.length, 1, kind);
    }
  });

  it("YAML-04: lists in lists and in Templates are opened, and one whose items are an object is refused", () => {
    const inList = (item: string): string => `{"kind":"List","apiVersion":"v1","items":[${item}]}`;
    const one = '{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"p"},"spec":{}}';
    const template = `{"apiVersion":"template.openshift.io/v1","kind":"Template","objects":[${inList(one)}]}`;
    for (const text of [inList(inList(one)), template, inList(template)]) {
      assert.deepEqual(
        read(text).manifests.map(({ object }) => object.key),
        ["default/p"],
      );
    }
    assert.deepEqual(problemsOf('{"kind":"List","apiVersion":"v1","items":{"a":1}}'), [
      "wl.yaml:1: List: items: expected a list of objects",
    ]);
  });
});
