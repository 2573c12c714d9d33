import assert from "node:assert/strict";
import { excludes } from "../../../../cli/input/reading.ts";
import { memoryFiles, type Outcome, runCliWhole } from "../../../support/cli/cli.ts";

const POD = "apiVersion: v1\nkind: Pod\nmetadata: { name: p, namespace: a, labels: { app: p } }\n";
const CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: c }\n";
const policy = (spec: string, name = "p"): string =>
  `apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: { name: ${name}, namespace: a }\nspec:\n  ${spec}\n`;
const CLOSED = policy("podSelector: {}");

const COMMANDS: readonly (readonly string[])[] = [
  ["policy", "matrix"],
  ["policy", "explain", "--from", "a/p", "--to", "a/p"],
  ["rules", "--node", "node-1"],
  ["policy", "dry-run", "--against", "there.yaml"],
];

async function run(
  args: readonly string[],
  files: Readonly<Record<string, string>>,
  paths = Object.keys(files),
): Promise<Outcome> {
  const node = "apiVersion: v1\nkind: Node\nmetadata: { name: node-1 }\n";
  return runCliWhole([...args, "-f", ...paths], memoryFiles({ ...files, "there.yaml": `${POD}---\n${node}` }));
}

const matrix = (files: Readonly<Record<string, string>>, ...more: readonly string[]): Promise<Outcome> =>
  run(["policy", "matrix", ...more], files);

describe("the input of a command", () => {
  it("READ-07: one line on stderr says how many objects were read, and what was ignored or skipped and why", async () => {
    const files = { "a.yaml": `${POD}---\n${CONFIG_MAP}---\n${CLOSED}`, "values.yaml": "replicas: 2\n" };
    const { code, err } = await matrix(files);
    const line =
      "read 2 objects in a.yaml; ignored 1 ConfigMap: no answer depends on these kinds; skipped values.yaml (no manifest)\n";
    assert.deepEqual([code, err], [0, line]);
    const many = await matrix({ "a.yaml": POD, "b.yaml": CLOSED });
    assert.equal(many.err, "read 2 objects in 2 files\n");
    assert.equal((await run(["policy", "matrix"], { "-": POD })).err, "read 1 object on standard input\n");
  });

  it("READ-16: an unknown field in a policy is refused with its line, as by kubectl's strict validation", async () => {
    const cluster = (subject: string, more = ""): string =>
      `apiVersion: policy.networking.k8s.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: { name: c }\nspec:\n  tier: Admin\n  priority: 1\n  subject: ${subject}\n${more}`;
    for (const [text, line, message] of [
      [
        policy("podSelector: { matchLabel: { app: p } }"),
        5,
        "NetworkPolicy a/p: spec.podSelector.matchLabel: a field that the API does not have; expected matchLabels",
      ],
      [
        policy("podSelector: {}\n  ingress:\n    - port: [{ port: 80 }]"),
        7,
        "NetworkPolicy a/p: spec.ingress[0].port: a field that the API does not have; expected ports",
      ],
      [
        policy("podSelector: {}").replace("name: p,", "name: p, label: {},"),
        3,
        "NetworkPolicy a/p: metadata.label: a field that the API does not have; expected labels",
      ],
      [
        cluster("{ namespaces: { notSameLabels: [a] } }"),
        7,
        "ClusterNetworkPolicy c: spec.subject.namespaces.notSameLabels: a field that the API does not have; expected one of matchLabels, matchExpressions",
      ],
    ] as const) {
      // All commands read alike, so one object is enough to see that each of them refuses.
      for (const command of line === 7 ? COMMANDS : COMMANDS.slice(0, 1)) {
        const { code, err, out } = await run(command, { "a.yaml": text });
        assert.deepEqual([code, out], [3, ""], `${command.join(" ")}: ${err}`);
        assert.ok(err.includes(`a.yaml:${line}: ${message}\n`), err);
      }
      const warned = await matrix({ "a.yaml": `${text}---\n${POD}` }, "--validate", "warn");
      assert.equal(warned.code, 0, warned.err);
      assert.ok(warned.err.includes(`a.yaml:${line}: ${message}\n`), warned.err);
    }
    const known = policy(
      "podSelector: { matchLabels: { app: p } }\n  policyTypes: [Ingress]\n  ingress: [{ from: [{ ipBlock: { cidr: 10.0.0.0/8, except: [] } }], ports: [{ port: 80, endPort: 90, protocol: TCP }] }]",
    );
    assert.equal((await matrix({ "a.yaml": `${known}---\n${POD}` })).code, 0);
  });

  it("READ-07: a JSON or YAML file that is not a manifest is skipped and named, also output of this program", async () => {
    const json = (await matrix({ "a.yaml": POD }, "-o", "json")).out;
    for (const [name, text] of [
      ["package.json", '{ "name": "x", "version": "1.0.0" }'],
      ["values.yaml", "image: { tag: latest }\n"],
      ["matrix.json", json],
      ["compose.yaml", "services:\n  web: { image: x }\n"],
      [".drone.yml", "kind: pipeline\ntype: docker\n"],
      ["playbook.yaml", "- hosts: all\n  tasks: []\n"],
    ] as const) {
      const { code, err } = await matrix({ [name]: text, "a.yaml": POD });
      assert.deepEqual([code, err], [0, `read 1 object in a.yaml; skipped ${name} (no manifest)\n`], name);
    }
    const chart = await matrix({ "web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "a.yaml": POD });
    assert.match(chart.err, /skipped web\/Chart\.yaml \(a chart: --helm web renders it\)$/m);
    for (const text of [
      "resources: [a.yaml]\n",
      "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n",
    ]) {
      const { err } = await matrix({ "base/kustomization.yaml": text, "a.yaml": POD });
      assert.match(err, /skipped base\/kustomization\.yaml \(a kustomization: --kustomize base renders it\)$/m);
    }
  });

  it("READ-07: a file that cannot be read and does not look like a manifest is named and ends no run; one that may be one is an error", async () => {
    for (const [name, text] of [
      ["mkdocs.yml", "emoji: !!python/name:x {\n"],
      ["tsconfig.json", '{\n  // comment\n  "strict": true,\n}'],
      ["play.yaml", "{% if web %}\nweb: 1\n{% endif %}\n"],
      ["notes.yaml", "a: b: c\n\tkindly\n"],
      ["logo.yaml", "\u0089PNG\u0000"],
    ] as const) {
      const { code, err } = await matrix({ [name]: text, "a.yaml": POD });
      assert.equal(code, 0, err);
      assert.match(err, new RegExp(`^read 1 object in a\\.yaml; skipped ${name} \\(no manifest, line \\d+: .*\\)\\n$`));
    }
    for (const text of ["kind: [", "a: {\nKind: Pod", "{{ if .Values.x }}", "k\0i\0n\0d\0:\0 \0P\0o\0d\0"])
      assert.equal((await matrix({ "b.yaml": text, "a.yaml": POD })).code, 3, text);
  });

  it("READ-16: a field that the API does not have is named before what else is refused, also by lint", async () => {
    for (const [spec, field] of [
      ["podSelector: {}\n  ingress: [{ from: [{ podSelectr: {} }] }]", "spec.ingress[0].from[0].podSelectr"],
      ["podSelector: {}\n  egress: [{ ports: [{ prot: TCP, port: 0 }] }]", "spec.egress[0].ports[0].prot"],
      ["podSelector: { matchLabels: { app: 1 }, matchLabel: {} }", "spec.podSelector.matchLabel"],
    ] as const) {
      const files = { "a.yaml": policy(spec) };
      const [, first, second = ""] = (await matrix(files)).err.split(/\n?a\.yaml:\d+: |\n/).filter((one) => one !== "");
      assert.ok(first?.startsWith(`NetworkPolicy a/p: ${field}: a field that the API does not have; expected `), first);
      assert.match(second, /^NetworkPolicy a\/p: spec\./);
      const { out } = await run(["policy", "lint"], files);
      assert.ok(out.indexOf(`${field}: a field`) > 0 && out.indexOf(`${field}: a field`) < out.indexOf(second), out);
    }
  });

  it("READ-07: --exclude skips files by name, directory or path, and names them", async () => {
    const files = { "d/a.yaml": POD, "d/test/b.yaml": "kind: [", "d/c.yaml": "{{" };
    const { code, err } = await run(["policy", "matrix", "-R", "--exclude", "test", "c.*"], files, ["d"]);
    assert.deepEqual(
      [code, err],
      [0, "read 1 object in d/a.yaml; skipped d/c.yaml (excluded), d/test/b.yaml (excluded)\n"],
    );
    assert.equal((await run(["policy", "matrix", "-R"], files, ["d"])).code, 3);
    for (const [pattern, path, isMeant] of [
      ["values.yaml", "a/b/values.yaml", true],
      ["values.yaml", "a/other-values.yaml", false],
      ["*.json", "a/b.json", true],
      ["*.json", "a/b.json.yaml", false],
      ["a/*.yaml", "a/b.yaml", true],
      ["a/*.yaml", "a/b/c.yaml", false],
      ["a/**/*.yaml", "x/a/b/c.yaml", true],
      ["a/**/*.yaml", "a/c.yaml", true],
      ["./a/", "a/b.yaml", true],
      ["charts", "a/charts/b/c.yaml", true],
      ["?.yaml", "a/b.yaml", true],
      ["?.yaml", "a/bb.yaml", false],
      ["a+(b)", "a+(b)", true],
    ] as const) {
      assert.equal(excludes(pattern, path), isMeant, `${pattern} ${path}`);
    }
  });

  it("READ-07: an unrendered template is reported as such, with its line and the command that renders it", async () => {
    const action = "{{- if .Values.networkPolicy.enabled }}";
    const broken = {
      "web/Chart.yaml": "apiVersion: v2\nname: web\n",
      "web/templates/np.yaml": `# c\n${action}\n${CLOSED}{{- end }}\n`,
    };
    const { code, out, err } = await matrix(broken);
    assert.deepEqual([code, out], [3, ""]);
    assert.match(
      err,
      /^web\/templates\/np\.yaml:2: an unrendered template \("\{\{- if \.Values\.networkPolicy\.enabled \}\}"\); expected manifests: read it by --helm web, or what `helm template web` prints, or omit it by --exclude$/m,
    );
    const quoted = CLOSED.replace("name: p", 'name: "{{ .Release.Name }}-p"');
    assert.match(
      (await matrix({ "np.yaml": quoted })).err,
      /^np\.yaml:3: an unrendered template \("\{\{ \.Release\.Name \}\}"\); expected manifests: render it first/m,
    );
    // An alert has templates of its own, and is not a template.
    const alert =
      "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nspec: { summary: '{{ $labels.pod }} is down' }\n";
    assert.equal((await matrix({ "a.yaml": `${POD}---\n${alert}` })).code, 0);
  });

  it("READ-16: an unsupported kind that would change the answer stops every command, unless --ignore-unsupported omits it", async () => {
    for (const [apiVersion, kind] of [
      ["cilium.io/v2", "CiliumNetworkPolicy"],
      ["cilium.io/v2", "CiliumClusterwideNetworkPolicy"],
      ["k8s.cni.cncf.io/v1beta1", "MultiNetworkPolicy"],
      ["k8s.ovn.org/v1", "UserDefinedNetwork"],
      ["k8s.ovn.org/v1", "EgressFirewall"],
      ["policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy"],
      ["projectcalico.org/v3", "NetworkPolicy"],
      ["projectcalico.org/v3", "GlobalNetworkPolicy"],
    ]) {
      const text = `${POD}---\napiVersion: ${apiVersion}\nkind: ${kind}\nmetadata: { name: x, namespace: a }\nspec: { subject: { namespaces: {} }, priority: 1 }\n`;
      const name = `${kind} of "${apiVersion}": Drawbridge does not `;
      for (const command of kind === "CiliumNetworkPolicy" ? COMMANDS : COMMANDS.slice(0, 1)) {
        const { code, out, err } = await run(command, { "a.yaml": text });
        assert.deepEqual([code, out], [3, ""], `${kind}: ${err}`);
        assert.ok(err.includes(`a.yaml:5: ${name}`), err);
        assert.match(err, /; --ignore-unsupported omits it$/m);
      }
      const { code, err } = await matrix({ "a.yaml": text }, "--ignore-unsupported");
      assert.deepEqual([code, err.split("\n")[1]], [0, `a.yaml:5: ${kind} a/x: omitted, and the answer is without it`]);
      const lint = await run(["policy", "lint", "-o", "json", "--ignore-unsupported"], { "a.yaml": text });
      assert.match(lint.err, /omitted, and the answer is without it/);
      if (kind === "AdminNetworkPolicy") continue;
      const found = await run(["policy", "lint"], { "a.yaml": text });
      assert.ok(found.out.includes(`error      invalid   ${name}`), found.out);
      assert.match(found.out, /fix: what it closes or opens is not known here: --ignore-unsupported lints the rest$/m);
      assert.doesNotMatch(found.out, /omits it/);
    }
  });

  it("READ-16: a misspelt kind, and a known kind of another version, are errors with the kind that is probably meant", async () => {
    const object = (apiVersion: string, kind: string): string =>
      `apiVersion: ${apiVersion}\nkind: ${kind}\nmetadata: { name: x, namespace: a }\n`;
    for (const [apiVersion, kind, said] of [
      [
        "networking.k8s.io/v1",
        "NetworkPolicyy",
        'kind "NetworkPolicyy" of "networking.k8s.io/v1": the API has no such kind; probably NetworkPolicy of networking.k8s.io/v1 is meant',
      ],
      [
        "apps/v1",
        "deployment",
        'kind "deployment" of "apps/v1": the API has no such kind; probably Deployment of apps/v1 is meant',
      ],
      ["v1", "Pods", 'kind "Pods" of "v1": the API has no such kind; probably Pod of v1 is meant'],
      ["v1", "Deployment", 'Deployment: apiVersion "v1"; expected apps/v1'],
      ["extensions/v1beta1", "DaemonSet", 'DaemonSet: apiVersion "extensions/v1beta1"; expected apps/v1'],
      ["batch/v1beta1", "CronJob", 'CronJob: apiVersion "batch/v1beta1"; expected batch/v1'],
    ] as const) {
      const { code, err } = await matrix({ "a.yaml": `${POD}---\n${object(apiVersion, kind)}` });
      assert.equal(code, 3, `${kind}: ${err}`);
      assert.ok(err.includes(`a.yaml:5: ${said}\n`), err);
    }
    // These are kinds of Kubernetes, of OpenShift or of others.
    for (const [apiVersion, kind] of [
      ["v1", "PodTemplate"],
      ["v1", "ServiceAccount"],
      ["v1", "Role"],
      ["v1", "DeploymentConfig"],
    ] as const) {
      const { code, err } = await matrix({ "a.yaml": `${POD}---\n${object(apiVersion, kind)}` });
      assert.deepEqual(
        [code, err],
        [0, `read 1 object in a.yaml; ignored 1 ${kind}: no answer depends on these kinds\n`],
      );
    }
  });

  it("READ-20: kinds of other makers without a template are named, and never said to be irrelevant", async () => {
    for (const [apiVersion, kind] of [
      ["monitoring.coreos.com/v1", "Prometheus"],
      ["argoproj.io/v1alpha1", "Application"],
      ["serving.knative.dev/v1", "Service"],
      ["policy.linkerd.io/v1beta3", "Server"],
      ["sparkoperator.k8s.io/v1beta2", "SparkApplication"],
      ["app.k8s.io/v1beta1", "Application"],
      ["consul.hashicorp.com/v1alpha1", "ServiceIntentions"],
      ["example.org/v1", "Deploymnt"],
    ] as const) {
      const object = `apiVersion: ${apiVersion}\nkind: ${kind}\nmetadata: { name: x, namespace: a }\n`;
      const { code, err } = await matrix({ "a.yaml": `${POD}---\n${object}` });
      const words = `read 1 object in a.yaml; did not read 1 ${kind}: pods and rules that these make are in no answer\n`;
      assert.deepEqual([code, err], [0, words]);
    }
  });
});
