import assert from "node:assert/strict";
import { manifestFiles, type ManifestFileSystem } from "../../../../cli/input/manifest_files.ts";
import { readManifests } from "../../../../cli/input/manifests.ts";
import { memoryFiles } from "../../../support/cli/cli.ts";
import { manifest, named } from "../../../support/cli/objects.ts";

const keys = (contents: Readonly<Record<string, string>>, paths: readonly string[], isRecursive = false) => {
  const { manifests, problems } = readManifests(memoryFiles(contents), paths, isRecursive);
  return {
    keys: manifests.map(({ object }) => `${object.kind} ${object.key}`),
    problems: problems.map(({ file, line, message }) => `${file}:${line}: ${message}`),
  };
};

describe("cli/input/manifests", () => {
  it("CLI-03: files, directories and standard input are read as by kubectl", () => {
    const files = memoryFiles({
      "-": "",
      "d/a.yaml": "",
      "d/b.txt": "",
      "d/c/e.yml": "",
      "d/f.json": "",
      "g/h.txt": "",
      x: "",
    });
    assert.deepEqual(manifestFiles(files, ["x", "d", "-", "d/a.yaml"], false), ["x", "d/a.yaml", "d/f.json", "-"]);
    assert.deepEqual(manifestFiles(files, ["d"], true), ["d/a.yaml", "d/c/e.yml", "d/f.json"]);
    assert.throws(() => manifestFiles(files, ["nowhere"], false), /nowhere: expected a file or a directory/);
    assert.throws(() => manifestFiles(files, ["g"], true), /g: no file that ends in \.json, \.yaml, \.yml$/);
    const broken: ManifestFileSystem = {
      ...files,
      typeOf: (path) => (path === "d/f.json" ? undefined : files.typeOf(path)),
    };
    assert.throws(() => manifestFiles(broken, ["d"], false), /d\/f\.json: expected a file; remove it if it is a link/);
    const linked: ManifestFileSystem = { ...files, isLink: (path) => path === "d/c" };
    assert.deepEqual(manifestFiles(linked, ["d"], true), ["d/a.yaml", "d/f.json"]);
    assert.throws(() => manifestFiles(files, ["https://example.com/a.yaml"], false), /download it first/);
  });

  it("READ-20: a stand-in pod has the labels that its controller adds", () => {
    const unknown = "xxxxxxxxxx";
    const numbered = (ordinal: number): object => ({
      "apps.kubernetes.io/pod-index": `${ordinal}`,
      "controller-revision-hash": unknown,
      "statefulset.kubernetes.io/pod-name": `db-${ordinal}`,
    });
    const ofJob = (name: string, more = {}): object => ({
      "batch.kubernetes.io/controller-uid": unknown,
      "batch.kubernetes.io/job-name": name,
      "controller-uid": unknown,
      "job-name": name,
      ...more,
    });
    const index = (ordinal: number): object => ({ "batch.kubernetes.io/job-completion-index": `${ordinal}` });
    const template = "template: { metadata: { labels: {} }, spec: { containers: [{ name: c }] } }";
    const indexed = `completionMode: Indexed, completions: 3, parallelism: 1, ${template}`;
    for (const [kind, spec, ...expected] of [
      ["Deployment", `replicas: 1, ${template}`, { "pod-template-hash": unknown }],
      [
        "DaemonSet",
        template,
        ...[1, 2].map(() => ({ "controller-revision-hash": unknown, "pod-template-generation": unknown })),
      ],
      ["StatefulSet", template, numbered(0), numbered(1)],
      ["Job", template, ofJob("db")],
      ["Job", indexed, ...[0, 1, 2].map((one) => ofJob("db", index(one)))],
      ["CronJob", `jobTemplate: { spec: { ${template} } }`, ofJob(`db-${unknown}`)],
      [
        "CronJob",
        `jobTemplate: { spec: { ${indexed} } }`,
        ...[0, 1, 2].map((one) => ofJob(`db-${unknown}`, index(one))),
      ],
    ] as const) {
      const text = manifest(kind, named("shop/db"), `spec: { ${spec} }`);
      const { manifests } = readManifests(memoryFiles({ "a.yaml": text }), ["a.yaml"], false);
      const labels = manifests.map(({ object }) => (object.kind === "Pod" ? { ...object.labels } : {}));
      assert.deepEqual(labels, expected, text);
    }
  });

  it("CLI-02: ports of a Service that the API server refuses are problems, though nodes serve what they can of them", () => {
    const problemsOf = (ports: string, more = ""): readonly string[] => {
      const text = `{ apiVersion: v1, kind: Service, metadata: { name: s, namespace: shop }, spec: { ports: [${ports}]${more} } }`;
      return keys({ "a.yaml": text }, ["a.yaml"]).problems.map((one) =>
        one.replace("a.yaml:1: Service shop/s: spec.", ""),
      );
    };
    const none = "ports: none; expected at least one port";
    for (const [ports, more, ...expected] of [
      ["", "", none],
      ["", ", clusterIP: None"],
      ["", ", type: ExternalName, externalName: a.example"],
      ["{ port: 80 }", ""],
      ["{ port: 80, name: a }, { port: 80, protocol: UDP, name: b }", ""],
      ["{ port: 80, name: a }, { port: 81 }", "", 'ports[1].name: ""; expected a name for each of several ports'],
      [
        "{ port: 80, name: a }, { port: 80, name: a }",
        "",
        "ports[1].name: a; expected a name that no other port has",
        "ports[1].port: 80; expected a port that occurs once for TCP",
      ],
      ["{ port: 80, nodePort: 30080 }", "", "ports[0].nodePort: 30080; expected none with type ClusterIP"],
      [
        "{ port: 80, name: a, nodePort: 30080 }, { port: 81, name: b, nodePort: 30080 }",
        ", type: NodePort",
        "ports[1].nodePort: 30080; expected a port that occurs once for TCP",
      ],
      ["{ port: 10250 }", ", type: LoadBalancer", "ports[0].port: 10250; expected another port than a kubelet's"],
    ] as const) {
      assert.deepEqual(problemsOf(ports, more), expected, ports);
    }
  });

  it("CLI-02: a Service with an invalid selector is a problem, since the API server would refuse it", () => {
    const service = (spec: string): string =>
      `apiVersion: v1\nkind: Service\nmetadata: { name: s, namespace: shop }\nspec:\n  ${spec}\n  ports: [{ port: 80 }]\n`;
    assert.deepEqual(keys({ "a.yaml": service('selector: "app=web"') }, ["a.yaml"]), {
      keys: [],
      problems: ['a.yaml:5: Service shop/s: spec.selector: "app=web"; expected an object'],
    });
    assert.equal(keys({ "a.yaml": service("selector: { app: -web }") }, ["a.yaml"]).problems.length, 1);
    assert.equal(keys({ "a.yaml": service("type: ExternalName") }, ["a.yaml"]).problems.length, 0);
  });
});
